"""Spans: a snapshot of a log, cut so that other processes can read its pieces at the same time.

A snapshot is the manifest at one moment and, for a segment that is still open, its LAC at that
moment. It contains every record that a reader could see when it was taken. It is a prefix of the
log without holes: an open segment's successor counts only once the open one is closed, because only
then is it known that nothing of it is missing.

Taking a snapshot and reading a span never fence, and never disturb the writer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

from quire.entry import EntryId, LedgerId
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.reader import LedgerReader
from quire.log.batch import Batch, decode_batch
from quire.log.manifest import LogManifest, Segment
from quire.metastore.layout import ledger_path

CLOSING_SECONDS_MAX: Final = 5.0
"""How long a snapshot waits for a leader that is just closing a segment behind a roll."""


@dataclass(frozen=True, slots=True)
class Span:
    """The entries `first` … `last` of one segment; `skipped` records of the first were trimmed."""

    log: str
    segment: int
    ledger: LedgerId
    first: EntryId
    skipped: int
    last: EntryId


async def take_snapshot(
    manifest: LogManifest, catalog: LedgerCatalog, *, password: bytes = b""
) -> list[Span]:
    """Return the spans of a log as it is now, in order; segments without records have none.

    Raises `UnreadableError` when too few bookies answer for the LAC of an open segment, and
    `NoSuchLedgerError` when the log was trimmed meanwhile: read the manifest again.
    """
    spans: list[Span] = []
    for segment in manifest.segments:
        has_successor = segment is not manifest.segments[-1]
        last, is_closed = await _last_entry(segment, catalog, password, has_successor)
        first, skipped = _start(manifest, segment)
        if first <= last:
            spans.append(Span(manifest.name, segment.number, segment.ledger, first, skipped, last))
        if not is_closed:
            break
    return spans


def _start(manifest: LogManifest, segment: Segment) -> tuple[EntryId, int]:
    trimmed = manifest.trimmed_to
    return (trimmed.entry, trimmed.slot) if trimmed.segment == segment.number else (0, 0)


async def _last_entry(
    segment: Segment, catalog: LedgerCatalog, password: bytes, has_successor: bool
) -> tuple[EntryId, bool]:
    """Return the last readable entry of a segment, and whether the ledger is closed there."""
    if segment.end is not None:
        return segment.end.last_entry, True
    async with await catalog.open_without_recovery(segment.ledger, password=password) as reader:
        if has_successor:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSING_SECONDS_MAX):
                    await _until_closed(reader)
        return await reader.last_confirmed(), reader.is_closed


async def _until_closed(reader: LedgerReader) -> None:
    while not reader.is_closed:
        await reader.store.wait(ledger_path(reader.ledger), reader.version)
        await reader.refresh()


async def read_span(
    catalog: LedgerCatalog, span: Span, *, password: bytes = b""
) -> AsyncGenerator[tuple[EntryId, int, Batch], None]:
    """Yield (entry, records to leave out at its start, batch) of a span, in order.

    Raises `NoSuchLedgerError` when the segment was trimmed away meanwhile, and what reading a
    ledger raises.
    """
    async with (
        await catalog.open_without_recovery(span.ledger, password=password) as reader,
        aclosing(reader.read_runs(span.first, span.last)) as runs,
    ):
        async for entries in runs:
            for entry in entries:
                skipped = span.skipped if entry.entry == span.first else 0
                batch = decode_batch(entry.payload, span.ledger, entry.entry)
                if skipped < len(batch):
                    yield entry.entry, skipped, batch
