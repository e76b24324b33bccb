"""Bringing an Iceberg table up to date with its log: every record once, in commits of some size.

    look      at the extent of the log, and at the end that the table names
    remove    the rows of records that were trimmed
    append    the records from the table's end to the log's, a commit for every 256 MiB

The log is the truth. A run does the rest only, so it may be killed at any point and repeated.

Invariants:
  - Rows and the offset that they end before are one commit. A killed run leaves a whole number of
    commits, and files that no snapshot names.
  - A commit holds only on the snapshot that the run looked at. When two runs meet, one commits; the
    other looks again, and drops its rows.
  - Rows are committed after the log was seen to have its id still: then all of them were read from
    that log.
  - The record before the table's end must be where the table has it. Else the log lost records and
    gave their offsets away again, as after a rebuild, and nothing is added.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from quire.aio.backoff import Backoff
from quire.aio.tasks import in_thread
from quire.client import Client
from quire.errors import (
    ConfigurationError,
    LogReplacedError,
    NoSuchLedgerError,
    PositionTrimmedError,
    TableError,
    UnreadableError,
)
from quire.log.manifest.info import LogInfo
from quire.log.reading.search import LogEnd
from quire.log.records.keyring import Keyring
from quire.table.iceberg import COLUMNS, LogTable, TableChangedError, TableEnd
from quire.table.values import TableTarget, TableUpdate

COMMIT_BYTES: Final = 256 * 1024 * 1024
"""Rows that are committed together, and held in memory until then; a segment is usually as large.
1 TB of records makes some 4,000 snapshots.
"""

LOOKS_MAX: Final = 100
"""How often other programs may be quicker, a trim takes what is read, or a scan ends too early,
before a run gives up.
"""

LOOK_PAUSES: Final = Backoff(first=0.01, last=0.5)
"""The pauses before further looks at a log, until its known end is seen."""


class _ShortScanError(Exception):
    """A scan ended before the end that was seen: the log has to be looked at again."""


@dataclass(frozen=True, slots=True)
class ScannedLog:
    """A log, and how it is read."""

    client: Client
    name: str
    password: bytes
    keyring: Keyring | None

    async def extent(self, log_id: str) -> tuple[int, int] | None:
        """Return the first offset and the end that one look sees, the same if all records that it
        sees were trimmed; None if it sees no record. There may be records all the same.

        Raises `LogReplacedError`.
        """
        spans = await self.client.snapshot_log(self.name, password=self.password)
        await self.check(log_id)
        for span in spans:
            pieces = self.client.read_span(span, password=self.password, keyring=self.keyring)
            async with aclosing(pieces) as read:
                async for piece in read:
                    if piece.slots:
                        first = piece.batch.header.first_offset + piece.slots.start
                        return first, spans[-1].offsets.stop
        return (spans[-1].offsets.stop,) * 2 if spans else None

    async def extent_to(self, end: LogEnd, log_id: str) -> tuple[int, int]:
        """Return the extent once it is seen as far as an end that was seen before.

        A look waits for some bookies only, and those may not know of a record that others told of.
        So its silence proves no trim; the manifest tells of trims. Raises `LogReplacedError`,
        and `UnreadableError` if the records do not appear within `LedgerOptions.request_timeout`.
        """
        at, loop, pauses = end.position, asyncio.get_running_loop(), LOOK_PAUSES.pauses()
        deadline = loop.time() + self.client._options.request_timeout
        while True:
            extent = await self.extent(log_id)
            if extent is not None and extent[1] >= end.offset:
                return extent
            first = await self.client._logs.first_offset(self.name, password=self.password)
            info = await self.check(log_id)
            if first >= end.offset:
                return first, first
            if loop.time() >= deadline:
                held = [of.ledger for of in info.segments if of.number == at.segment]
                if not held:  # a rebuild lost the segment: the rest of the log is here
                    return extent or (first, first)
                raise UnreadableError(
                    held[0],
                    max(0, at.entry - 1),
                    f"log {self.name!r} reaches offset {end.offset}, and too few bookies know that "
                    "now: have the writer append; or, if it is gone, recover the log "
                    "(client.recover_log, `quire log end --recover`)",
                )
            await asyncio.sleep(pauses.next())

    async def end(self, *, linearizable: bool) -> LogEnd:
        """Return the log's end."""
        return await self.client.log_end(
            self.name, linearizable=linearizable, password=self.password
        )

    async def check(self, log_id: str) -> LogInfo:
        """Return the log. Raises `LogReplacedError` unless it has this id."""
        info = await self.client.log_info(self.name)
        if info.log_id != log_id:
            raise LogReplacedError(self.name)
        return info

    async def rows(self, start: int, end: int) -> Any:
        """Return a reader of the rows from one offset to before another."""
        return await self.client.scan_log(
            self.name, start, end, columns=COLUMNS, password=self.password, keyring=self.keyring
        )


async def bring_up(
    source: ScannedLog, target: TableTarget, on_progress: Callable[[int, int], None]
) -> TableUpdate:
    """Bring a table up to date. `quire.admin.update_table` has the terms."""
    log_id = (await source.client.log_info(source.name)).log_id
    table = await in_thread(partial(LogTable.open, target, source.name, log_id))
    run = _TableRun(source, table, target.table, log_id, on_progress)
    for _ in range(LOOKS_MAX):
        try:
            await run.go()
        except (TableChangedError, _ShortScanError):
            continue
        except (PositionTrimmedError, NoSuchLedgerError):
            extent = await source.extent(log_id)
            if extent is not None and extent[0] <= run.first:  # no trim explains it
                raise
            continue
        return TableUpdate(
            target.table, source.name, log_id, run.first, run.end, run.appended, table.snapshot_id
        )
    raise TableError(
        target.table,
        f"bookies forgot the log's end, or other programs committed first {LOOKS_MAX} times",
    )


class _TableRun:
    """One run: looks, removes and appends until the table has the log's records of the look."""

    def __init__(
        self,
        source: ScannedLog,
        table: LogTable,
        name: str,
        log_id: str,
        on_progress: Callable[[int, int], None],
    ) -> None:
        self._source = source
        self._table = table
        self._name = name
        self._log_id = log_id
        self._on_progress = on_progress
        self.first = self.end = self.appended = 0

    async def go(self) -> None:
        """Look, remove, append. Raises `TableChangedError`, `PositionTrimmedError`."""
        reach = await in_thread(self._table.reach)
        self.first, self.end = await self._extent(0 if reach is None else reach.end)
        if reach is not None:
            await in_thread(partial(self._table.remove_before, self.first, reach))
        start = max(self.first, 0 if reach is None else reach.end)
        if start < self.end:
            await self._append(start, reach)

    async def _extent(self, known: int) -> tuple[int, int]:
        """Return the log's first offset and its end, the same if all records were trimmed.

        Bookies that started again may have forgotten an end that they were told, with all records
        there. So an end before the `known` one is looked up again: a living writer confirms its
        records. Raises `UnreadableError`, which names the remedy, if the writer is gone, and
        `ConfigurationError` if records are lost.
        """
        extent = await self._source.extent(self._log_id)
        if extent is None:
            extent = await self._extent_after(linearizable=False)
        if extent[1] < known:
            extent = await self._extent_after(linearizable=True)
        if extent[1] < known:
            raise self._lost(f"the log ends before offset {extent[1]}")
        return extent

    async def _extent_after(self, *, linearizable: bool) -> tuple[int, int]:
        """Return the extent once the end is known: records up to it are seen, or were trimmed."""
        end = await self._source.end(linearizable=linearizable)
        return await self._source.extent_to(end, self._log_id)

    async def _append(self, start: int, reach: TableEnd | None) -> None:
        known = reach is not None and reach.last is not None and start > self.first
        reader = await self._source.rows(start - known, self.end)
        total = self.appended + self.end - start
        with reader:
            batches = iter(reader)
            if known and reach is not None:
                batches = await in_thread(partial(self._skip_known, batches, reach))
            while (rows := await in_thread(partial(_chunk, batches))) is not None:
                found = rows.column("offset")[0].as_py()
                if found != start:  # offset 0 asks for the first record left
                    raise PositionTrimmedError(self._source.name, f"offset {start}", str(found))
                start += len(rows)
                await self._source.check(self._log_id)
                await in_thread(partial(self._table.append, rows, _reach_of(rows)))
                self.appended += len(rows)
                self._on_progress(self.appended, total)
        if start < self.end:
            raise _ShortScanError

    def _skip_known(self, batches: Iterator[Any], reach: TableEnd) -> Iterator[Any]:
        """Return the batches without their first record, which the table has already."""
        batch = next(batches, None)  # the look found it, and this scan is another look
        if batch is None:
            return batches
        found = _position(batch, 0)
        if found != reach.last:
            raise self._lost(
                f"offset {reach.end - 1} is at {found} in the log, at {reach.last} in the table"
            )

        def rest() -> Iterator[Any]:
            if len(batch) > 1:
                yield batch.slice(1)
            yield from batches

        return rest()

    def _lost(self, reason: str) -> ConfigurationError:
        return ConfigurationError(
            f"table {self._name} has records that log {self._source.name!r} lost, as after a "
            f"rebuild: {reason}: name another table"
        )


def _chunk(batches: Iterator[Any]) -> Any:
    """Return the rows of the next commit, None after the last."""
    taken, size = [], 0
    for batch in batches:
        taken.append(batch)
        size += batch.nbytes
        if size >= COMMIT_BYTES:
            break
    return pa.Table.from_batches(taken) if taken else None


def _reach_of(rows: Any) -> TableEnd:
    last = len(rows) - 1
    return TableEnd(rows.column("offset")[last].as_py() + 1, _position(rows, last))


def _position(rows: Any, index: int) -> str:
    return ".".join(str(rows.column(name)[index].as_py()) for name in ("segment", "entry", "slot"))
