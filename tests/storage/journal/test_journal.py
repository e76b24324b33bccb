"""How the journal groups what is appended. What it makes durable is in test_node.py."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.journal.journal import Journal
from quire.storage.journal.record import RecordKind
from quire.storage.journal.segments import JOURNAL, Segments
from tests.sim.disk import SimDisk, SimFile
from tests.storage.scene import BOOKIE, SMALL, drive

STREAMS, ROUNDS = 4, 20


class Batches:
    """Counts the batches of a journal, and says when the first is under way."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.is_begun = asyncio.Event()
        whole = SimFile.write
        batches = self

        async def write(
            self: SimFile, offset: int, data: Sequence[bytes | memoryview], *, sync: bool = False
        ) -> None:
            if offset >= BLOCK_BYTES and self._path.endswith(".spare"):  # opened by that name
                batches.count += any(map(any, data))
                batches.is_begun.set()
            await whole(self, offset, data, sync=sync)

        patch.setattr(SimFile, "write", write)


def test_those_who_are_answered_share_the_next_batch_with_those_who_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else whoever once came late has a batch, and a sync, of its own for ever."""

    async def main() -> None:
        disk = SimDisk(random.Random(1)).mount()
        await disk.make_directory(JOURNAL)
        segments = Segments(disk, BOOKIE, SMALL, random.Random(1), print)
        await segments.load(1)
        applied: list[int] = []
        journal = Journal[int](
            segments,
            SMALL,
            bookie=BOOKIE,
            apply=applied.extend,
            on_fatal=print,
            on_idle=lambda: None,
            on_refused=print,
        )
        journal.start(await segments.create(0), 0)
        batches = Batches(monkeypatch)

        async def stream() -> None:
            for number in range(ROUNDS):
                await journal.append(RecordKind.RUN, b"body", number)

        early = [asyncio.create_task(stream()) for _ in range(STREAMS)]
        await batches.is_begun.wait()
        late = [asyncio.create_task(stream()) for _ in range(STREAMS)]
        await asyncio.gather(*early, *late)
        assert len(applied) == 2 * STREAMS * ROUNDS
        assert batches.count == ROUNDS + 1
        await journal.close()
        await disk.close()

    drive(main())
