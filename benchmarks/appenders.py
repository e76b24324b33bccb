"""What appends are measured on: a bookie's storage as a whole, and its journal by itself."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from quire.storage.disk.local import LocalDisk
from quire.storage.identity.cookie import format_bookie
from quire.storage.journal.journal import Journal
from quire.storage.journal.options import StorageOptions
from quire.storage.journal.record import RecordKind
from quire.storage.journal.segments import JOURNAL, Segments
from quire.storage.node import BookieNode

BOOKIE = "b" * 32
CLUSTER = "c" * 32


class Appender(Protocol):
    """Something that makes runs durable."""

    def add(self, ledger: int, key: bytes, run: bytes) -> asyncio.Future[None]:
        """Append a run; done when it is durable."""
        ...

    async def flush(self) -> object:
        """Make journal segments free for reuse."""
        ...


class Whole:
    """A bookie's storage: runs are verified, journaled, indexed and readable."""

    def __init__(self, node: BookieNode) -> None:
        self.add = node.add
        self.flush = node._engine.upkeep.flush


class _Alone:
    """A journal whose records nobody applies."""

    def __init__(self, journal: Journal[None], segments: Segments) -> None:
        self._journal = journal
        self._segments = segments

    def add(self, ledger: int, key: bytes, run: bytes) -> asyncio.Future[None]:
        return self._journal.append(RecordKind.RUN, run, None)

    async def flush(self) -> None:
        await self._segments.release(self._journal.position().segment)


@asynccontextmanager
async def whole_bookie(directory: Path, options: StorageOptions) -> AsyncIterator[BookieNode]:
    """A bookie in an empty directory."""
    with tempfile.TemporaryDirectory(dir=directory) as home:
        disk = LocalDisk(home)
        try:
            await format_bookie(disk, BOOKIE, CLUSTER)
            node = await BookieNode.open(
                disk, BOOKIE, CLUSTER, rng=random.Random(1), on_fatal=print, options=options
            )
            try:
                yield node
            finally:
                await node.close()
        finally:
            await disk.close()


@asynccontextmanager
async def journal_alone(directory: Path, options: StorageOptions) -> AsyncIterator[Appender]:
    """A journal in an empty directory."""
    with tempfile.TemporaryDirectory(dir=directory) as home:
        disk = LocalDisk(home)
        try:
            await disk.make_directory(JOURNAL)
            segments = Segments(disk, BOOKIE, options, random.Random(1), print)
            await segments.load(1)
            journal = Journal[None](
                segments,
                options,
                bookie=BOOKIE,
                apply=lambda _: None,
                on_fatal=print,
                on_idle=lambda: None,
                on_refused=print,
            )
            journal.start(await segments.create(0), 0)
            try:
                yield _Alone(journal, segments)
            finally:
                await journal.close()
        finally:
            await disk.close()
