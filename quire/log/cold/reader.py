"""Entries out of a segment's Parquet file (parquet.py), as if it were the ledger.

A file is believed when its footer has the sum that the manifest says, and what is read of it those
that the footer says (checksums.py). A sum that differs is a `CorruptStorageError` with the file's
URI, a file that is not there `ColdFileMissingError`, a file system that does not answer
`ColdTierError`. Files are read in threads, a row group at a time.
"""

from __future__ import annotations

import asyncio
import json
import logging
from bisect import bisect_right
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa
from pyarrow import compute, fs
from pyarrow import parquet as pq

from quire.aio.handle import Handle
from quire.aio.tasks import in_thread
from quire.entry import Entry, EntryId, LedgerId
from quire.errors import (
    ColdFileMissingError,
    ColdTierError,
    CorruptStorageError,
    HandleClosedError,
    NoSuchEntryError,
    NoSuchLedgerError,
)
from quire.log.cold.checksums import CheckedFile
from quire.log.cold.parquet import FORMAT, HEADS, KEY
from quire.log.cold.tier import locate
from quire.log.manifest.cold_files import ColdFile, is_any_logs
from quire.log.records.batch import UNPLACED, Base, BatchHeader, Compression, assemble_batch
from quire.log.segment_store.port import SegmentFacts, SegmentSource, StirredWatch

T = TypeVar("T")

OpenLedger: TypeAlias = Callable[[], Awaitable[SegmentSource]]
"""Opens the ledger of a segment in a file, while bookies keep it."""

_log = logging.getLogger(__name__)

UNSOUND: Final = (ColdFileMissingError, CorruptStorageError)
"""What says that a file has no copy of an entry."""

BODY: Final = (*HEADS, "payload", "columns", "sealed")
_DAMAGE: Final = (
    OSError, pa.ArrowException, ValueError, TypeError, LookupError, AttributeError,
)  # fmt: skip
"""What pyarrow and the lines around it raise over bytes that are not a file of ours."""


class _Head(NamedTuple):
    """An entry within a row group: its rows, and what its batch's header says."""

    entry: EntryId
    start: int
    end: int
    header: BatchHeader


class _FilePlace:
    """Where a file should be. What reads the bytes holds this and not the `ParquetEntries`: in a
    cycle that would stay open until cycles are collected.

    A file that was named just now may still lie among the attempts, and move while it is read.
    """

    def __init__(self, cold: ColdFile, ledger: LedgerId) -> None:
        self._system, path = locate(cold.uri)
        self._places = (path, locate(cold.attempt_uri)[1])
        if not all(map(is_any_logs, self._places)):
            raise CorruptStorageError(cold.uri, "no file of a log has this name")
        self._stream: Any = None
        self._cold = cold
        self._ledger = ledger

    def check(self) -> str:
        """Return where the file is. Raises unless it is there, and as long as it was written."""
        path, attempt = self._places
        for each in (path, attempt, path):  # it may have moved between the first two looks
            try:
                info = self._system.get_file_info(each)
            except (OSError, pa.ArrowException) as error:
                raise ColdTierError(self._cold.uri, str(error)) from error
            if info.type == fs.FileType.File:
                break
        else:
            raise ColdFileMissingError(self._ledger, self._cold.uri)
        if info.size != self._cold.size:
            reason = f"it has {info.size} bytes, {self._cold.size} were written"
            raise CorruptStorageError(self._cold.uri, reason)
        return each

    def open(self) -> None:
        """Open the file, wherever it is."""
        path = self.check()
        with self._answers():
            self._stream = self._system.open_input_file(path)

    def read_at(self, start: int, count: int) -> bytes:
        """Return bytes of the open file. Where it moved away under the reader it is opened anew."""
        try:
            found: bytes = self._stream.read_at(count, start)
        except (OSError, pa.ArrowException):
            self.open()
            with self._answers():
                found = self._stream.read_at(count, start)
        return found

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    @contextmanager
    def _answers(self) -> Iterator[None]:
        """An error of the file system is not damage: the bytes were not read."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            self.check()
            raise ColdTierError(self._cold.uri, str(error)) from error


class ParquetEntries:
    """An open file. Blocking, for one thread at a time; dropping it closes it."""

    def __init__(self, cold: ColdFile, ledger: LedgerId, base: Base | None) -> None:
        self.ledger = ledger
        self._cold = cold
        self._base = base
        self._place = _FilePlace(cold, ledger)
        self._firsts: list[EntryId] = []
        self._checked: CheckedFile
        self._file: Any = self._safely(self._open)
        self._heads: tuple[int, list[_Head]] = (-1, [])
        self._last: tuple[int, list[Entry]] = (-1, [])
        """The group last read for one entry: a search comes back to it."""
        self._damaged: dict[int, str] = {}
        """Groups that cannot be read, and why: a search for sound records asks for every entry."""

    def _open(self) -> Any:
        self._place.open()
        try:
            return self._understand()
        except BaseException:
            self._place.close()  # the error holds it, for as long as the error is held
            raise

    def _understand(self) -> Any:
        cold = self._cold
        checked = CheckedFile(cold.uri, self._place.read_at, cold.size, cold.checksum)
        file = pq.ParquetFile(checked)
        facts = json.loads(file.metadata.metadata[KEY])
        if facts["format"] != FORMAT or facts["ledger"] != self.ledger:
            reason = f"it is not ledger {self.ledger} in format {FORMAT}: {facts}"
            raise CorruptStorageError(cold.uri, reason)
        checked.expect([(end, checksum) for _, end, checksum in facts["groups"]])
        self._firsts = [first for first, _, _ in facts["groups"]]
        self._checked = checked
        return file

    @property
    def parts(self) -> int:
        """How many parts have sums in the footer."""
        return len(self._firsts)

    def check(self, part: int) -> None:
        """Read a part and compare it with its sum. Raises `CorruptStorageError`."""
        self._safely(lambda: self._checked.check(part))

    def groups(self, first: EntryId, last: EntryId) -> range:
        """The row groups that hold entries."""
        return range(self._group_of(first), self._group_of(last) + 1)

    def _group_of(self, entry: EntryId) -> int:
        return max(0, bisect_right(self._firsts, entry) - 1)

    def last_of(self, group: int, last: EntryId) -> EntryId:
        """The last entry of a row group, in a file that ends with `last`."""
        return self._firsts[group + 1] - 1 if group + 1 < len(self._firsts) else last

    def read(self, group: int) -> list[Entry]:
        """Return the entries of a row group."""
        return self._read(group, lambda: list(self._entries(group)))

    def _read(self, group: int, work: Callable[[], T]) -> T:
        if group in self._damaged:
            raise CorruptStorageError(self._cold.uri, self._damaged[group])
        try:
            return self._safely(work)
        except CorruptStorageError as error:
            self._damaged[group] = error.reason
            raise

    def read_entry(self, entry: EntryId) -> Entry:
        """Return one entry. Raises `NoSuchEntryError`."""
        group = self._group_of(entry)
        if self._last[0] != group:
            self._last = group, self.read(group)
        for each in self._last[1]:
            if each.entry == entry:
                return each
        raise NoSuchEntryError(self.ledger, entry)

    def read_head(self, entry: EntryId) -> bytes:
        """Return an entry's payload as far as `decode_header` looks. Raises `NoSuchEntryError`."""
        group = self._group_of(entry)
        if self._heads[0] != group:
            self._heads = (
                group,
                self._read(group, lambda: self._list_heads(self._table(group, HEADS))),
            )
        for head in self._heads[1]:
            if head.entry == entry:
                return assemble_batch(bytes(4 * (head.end - head.start)), b"", head.header)
        raise NoSuchEntryError(self.ledger, entry)

    def _entries(self, group: int) -> Iterator[Entry]:
        table = self._table(group, BODY)
        payload = _whole(table, "payload").fill_null(b"")
        columns, sealed = _whole(table, "columns"), _whole(table, "sealed")
        lengths = memoryview(compute.binary_length(payload).buffers()[1])
        ends = memoryview(payload.buffers()[1]).cast("b").cast("i")
        data = memoryview(payload.buffers()[2] or b"")
        for entry, start, end, header in self._list_heads(table):
            body: bytes | None = sealed[start].as_py()
            if body is None:
                extra = columns[start].as_py() or b""
                sizes = bytes(lengths[4 * start : 4 * end])
                body = assemble_batch(sizes, data[ends[start] : ends[end]], header, extra)
            yield Entry(self.ledger, entry, entry - 1, len(body), body)

    def _table(self, group: int, columns: tuple[str, ...]) -> Any:
        return self._file.read_row_group(group, columns=list(columns), use_threads=False)

    def _list_heads(self, table: Any) -> list[_Head]:
        """Where entries begin and end, and their headers as the ledger has them."""
        runs = compute.run_end_encode(_whole(table, "entry"), run_end_type=pa.int32())
        ends = runs.run_ends.to_pylist()
        starts = [0, *ends[:-1]]
        at = pa.array(starts, pa.int32())
        offsets, epochs, times = (
            _whole(table, name).take(at).cast(pa.int64()).to_pylist() for name in HEADS[1:]
        )
        if self._base is not None:
            offsets = [offset - self._base.first_offset for offset in offsets]
            epochs = [UNPLACED.epoch] * len(ends)
            times = [UNPLACED.timestamp_ms] * len(ends)
        rows = zip(runs.values.to_pylist(), starts, ends, offsets, epochs, times, strict=True)
        return [
            _Head(entry, start, end, BatchHeader(Compression.NONE, end - start, 0, *placed))
            for entry, start, end, *placed in rows
        ]

    def _safely(self, work: Callable[[], T]) -> T:
        """Do what reads the file; what fails twice with the file in its place is damage."""
        try:
            return work()
        except MemoryError:  # Arrow's is one of Arrow's exceptions, too
            raise
        except _DAMAGE:
            self._place.check()
        try:
            return work()
        except MemoryError:
            raise
        except _DAMAGE as error:
            raise CorruptStorageError(self._cold.uri, str(error)) from error


def _whole(table: Any, name: str) -> Any:
    """A column in one piece that begins where its buffers do."""
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # of no chunks, or of more than 2 GiB
        column = pa.concat_arrays(column.chunks) if column.num_chunks else column
    return column if not column.offset else pa.concat_arrays([column, column.slice(0, 0)])


class ColdReader(Handle):
    """Port `SegmentSource`: a sealed segment in a file.

    As long as bookies keep the segment's ledger, `kept` opens it. Each row group comes from the
    file if it can: a group that is damaged, or gone with the file, is read from the ledger.
    """

    is_closed: Final = True

    def __init__(self, file: ParquetEntries, last: EntryId, kept: OpenLedger | None = None) -> None:
        self.ledger: Final = file.ledger
        self.facts: Final = SegmentFacts(file.ledger, {}, b"", last)
        self._file: ParquetEntries | None = file
        self._last = last
        self._kept = kept
        self._other: SegmentSource | None = None
        self._reading = asyncio.Lock()
        self._opening = asyncio.Lock()

    async def _in_thread(self, work: Callable[[ParquetEntries], T]) -> T:
        async with self._reading:  # one thread's at a time
            return await in_thread(partial(work, self._held_file()))

    def _held_file(self) -> ParquetEntries:
        if self._file is None:
            raise HandleClosedError(f"reader of ledger {self.ledger}")
        return self._file

    async def _read(
        self,
        from_file: Callable[[ParquetEntries], T],
        from_ledger: Callable[[SegmentSource], Awaitable[T]],
    ) -> T:
        try:
            return await self._in_thread(from_file)
        except UNSOUND as error:
            other = await self._open_other(error)
        return await from_ledger(other)

    async def _open_other(self, error: Exception) -> SegmentSource:
        """Return the ledger. Without it, raise the error of the file."""
        async with self._opening:  # sound groups are read meanwhile
            self._held_file()
            if self._other is None:
                other = await _open_kept(self._kept, self.ledger, error)
                if self._file is None:  # closed meanwhile
                    await other.close()
                    self._held_file()
                self._other = other
            return self._other

    async def last_confirmed(self) -> EntryId:
        """Return the last entry."""
        return self._last

    last_acknowledged = last_confirmed

    async def read_entry(self, entry: EntryId) -> Entry:
        """Return one entry. Raises `NoSuchEntryError`, and see the module."""
        return await self._read(
            lambda file: file.read_entry(entry), lambda other: other.read_entry(entry)
        )

    async def read_head(self, entry: EntryId) -> bytes:
        """Return an entry's payload as far as `decode_header` looks."""
        return await self._read(
            lambda file: file.read_head(entry), lambda other: other.read_head(entry)
        )

    async def read_runs(
        self, first: EntryId, last: EntryId | None = None
    ) -> AsyncGenerator[list[Entry], None]:
        """Yield the entries first..last, in lists. Raises `CorruptStorageError` for one missing."""
        end = self._last if last is None else last
        expected = first
        file = self._held_file()
        for group in file.groups(first, end):
            try:
                read = await self._in_thread(lambda file, group=group: file.read(group))  # type: ignore[misc]
            except UNSOUND as error:
                other = await self._open_other(error)
                last_of_group = min(end, file.last_of(group, end))
                async with aclosing(other.read_runs(expected, last_of_group)) as runs:
                    async for run in runs:
                        yield run
                expected = last_of_group + 1
                continue
            run = [each for each in read if first <= each.entry <= end]
            for each in run:
                if each.entry != expected:
                    raise NoSuchEntryError(self.ledger, expected)
                expected += 1
            if run:
                yield run
        if expected <= end:
            raise NoSuchEntryError(self.ledger, expected)

    follow_runs = read_runs

    def confirm(self, last: EntryId) -> None:
        """See `SegmentSource.confirm`: all entries of a file are."""

    async def wait_closed(self) -> None:
        """See `SegmentSource.wait_closed`: it is."""

    def watch(self) -> StirredWatch:
        """See `SegmentSource.watch`."""
        return StirredWatch()

    async def close(self) -> None:
        """Release the file, and the ledger."""
        self._file = None
        other, self._other = self._other, None
        if other is not None:
            await other.close()


async def open_file(
    cold: ColdFile,
    ledger: LedgerId,
    last: EntryId,
    base: Base | None,
    kept: OpenLedger | None = None,
) -> SegmentSource:
    """Open a segment's file, or its ledger if bookies keep it and the file cannot be believed.

    `kept` opens that ledger. The module's head names the errors; besides, `kept` has its own.
    """
    try:
        file = await asyncio.to_thread(ParquetEntries, cold, ledger, base)
    except UNSOUND as error:
        return await _open_kept(kept, ledger, error)
    return ColdReader(file, last, kept)


async def is_whole(cold: ColdFile, ledger: LedgerId) -> bool:
    """Whether every part of a segment's file has its sum: one pass, a part in memory at a time.

    Raises `ColdTierError`, and logs what is wrong with the file.
    """
    try:
        file = await in_thread(partial(ParquetEntries, cold, ledger, None))
        for part in range(file.parts):
            await in_thread(partial(file.check, part))
    except UNSOUND as error:
        _log.warning("%s: bookies keep ledger %d", error, ledger)
        return False
    return True


async def _open_kept(kept: OpenLedger | None, ledger: LedgerId, error: Exception) -> SegmentSource:
    """Open the ledger of a file with an error. Without the ledger, raise the error: a missing file
    may lie on a disk that is not mounted, which the lack of a ledger does not tell.
    """
    if kept is None:
        raise error
    _log.warning("%s: reading ledger %d from the bookies", error, ledger)
    try:
        return await kept()
    except NoSuchLedgerError:
        raise error from None
