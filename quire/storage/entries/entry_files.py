"""Reading entry-log files: chunks fetched in as few reads as possible, each verified.

Chunks that follow each other are one read. The bookie announces several reads to the disk before it
waits for the first of them, and while it serves a sequential reader it announces the next chunks.
So the disk works on all of them, and fetched chunks wait in the page cache. A reader is sequential
if its read begins in, or right after, the chunk where a read ended a while ago.

A bounded number of files is held open; the least recently used goes first. (Closing a file lets
reads under way finish.)
"""

from __future__ import annotations

import asyncio
import errno
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from quire.entry import NO_ENTRY, EntryId, LedgerId
from quire.errors import CorruptEntryError
from quire.storage.disk.port import Disk, File, is_shortage
from quire.storage.entries.entry_log import ChunkAt, entries_path
from quire.storage.entries.read_cache import CachedStretch, ReadCache
from quire.storage.entries.stored_run import StoredRun

ENDS_MAX: Final = 4096
"""Remembered places where reads ended: so many readers can be told apart."""

TOLD_MIN: Final = 4
"""Fewer reads are not announced to the disk: in each file it fetches the bytes after the last read
by itself, unless it was told what to fetch."""

TOLD_MAX: Final = 32
"""Reads announced to the disk at once: the queue of a disk that hangs must not fill up."""


class _Told(NamedTuple):
    """How far ahead of a reader chunks were announced to the disk."""

    last: EntryId = NO_ENTRY
    next_at: EntryId = NO_ENTRY
    """More chunks are announced when the reader comes to this entry."""


@dataclass(slots=True)
class _FileOpening:
    """A file that tasks wait for to be open."""

    tasks: int = 0
    is_void: bool = False
    """It was dropped meanwhile."""


class EntryFiles:
    """The open entry-log files of a bookie, and the chunks read from them lately."""

    def __init__(self, disk: Disk, open_files_max: int, cache: ReadCache | None = None) -> None:
        self._disk = disk
        self._open_files_max = open_files_max
        self._files: dict[int, File] = {}
        self.cache: Final = ReadCache(0) if cache is None else cache
        self._ends: OrderedDict[tuple[int, int], _Told] = OrderedDict()
        self._opening: dict[int, _FileOpening] = {}
        self._retired: list[int] = []
        self._doomed: list[int] = []

    async def read(
        self, ledger: LedgerId, chunks: Sequence[ChunkAt]
    ) -> tuple[list[StoredRun], CorruptEntryError | None]:
        """Return the chunks' runs, in order, up to the first damaged or unreadable chunk.

        The bytes come from the disk and every frame is looked at. Raises OSError for a shortage.
        """
        stretches = [CachedStretch(group) for group in _adjacent(chunks)]
        await self._fetch_all(stretches)
        plan = [stretch for stretch in stretches for _ in stretch.chunks]
        return _take(ledger, chunks, plan, None)

    async def serve(
        self,
        ledger: LedgerId,
        chunks: Sequence[ChunkAt],
        wanted: tuple[EntryId, EntryId] | None,
        ahead: Callable[[EntryId], Sequence[ChunkAt]],
    ) -> tuple[list[StoredRun], CorruptEntryError | None]:
        """Return as `read`, through the cache. Chunks that lie between the two ids `wanted` are
        believed whole, without a look at each frame. `ahead` tells which chunks come after an
        entry: they are announced to the disk if the reader reads in order.
        """
        if not chunks:
            return [], None
        plan = self._plan(chunks)
        if all(stretch.data is not None for stretch in plan):
            await asyncio.sleep(0)  # a caller that reads in a loop lets others run
        self._look_ahead(chunks, ahead)
        await self._fetch_all(dict.fromkeys(plan))
        for stretch in dict.fromkeys(plan):
            if stretch.chunks[0] not in self.cache:
                self.cache.put(stretch)
        found, damage = _take(ledger, chunks, plan, wanted)
        if damage is not None:
            for stretch in dict.fromkeys(plan):
                self.cache.forget(stretch)
        return found, damage

    def _plan(self, chunks: Sequence[ChunkAt]) -> list[CachedStretch]:
        """Return the stretch of each chunk, a kept stretch or a new one."""
        kept = [self.cache.find(chunk) for chunk in chunks]
        missing = [chunk for chunk, found in zip(chunks, kept, strict=True) if found is None]
        fresh = iter([new for new in map(CachedStretch, _adjacent(missing)) for _ in new.chunks])
        counts = self.cache.counts
        counts.chunks_fetched += len(missing)
        counts.chunks_cached += len(chunks) - len(missing)
        return [next(fresh) if found is None else found for found in kept]

    async def _fetch_all(self, stretches: Iterable[CachedStretch]) -> None:
        """Fetch the bytes of all stretches; a failed stretch keeps its error. Raises OSError
        for an error that says nothing about them.
        """
        wanted = [stretch for stretch in stretches if stretch.data is None]
        if len(wanted) >= TOLD_MIN:
            self._tell(wanted)
        for stretch in wanted:
            try:
                file = await self._open(stretch.chunks[0].file)
                stretch.data = await file.read(stretch.chunks[0].offset, stretch.bytes)
            except OSError as error:
                if is_shortage(error):
                    raise
                stretch.error = error

    def _tell(self, stretches: Sequence[CachedStretch]) -> None:
        """Tell the disk of reads to come."""
        for stretch in stretches[:TOLD_MAX]:
            file = self._files.get(stretch.chunks[0].file)
            if file is not None:
                file.will_read(stretch.chunks[0].offset, stretch.bytes)

    def _look_ahead(
        self, chunks: Sequence[ChunkAt], ahead: Callable[[EntryId], Sequence[ChunkAt]]
    ) -> None:
        """Note where a reader ends. Announce its next chunks to the disk if it reads in order and
        has come to the chunks announced last.
        """
        first, last = chunks[0], chunks[-1]
        before = [
            self._ends.pop(place, None)
            for place in ((first.file, first.offset), (first.file, first.offset + first.size))
        ]
        told = max((each for each in before if each is not None), default=None)
        if told is not None and last.last >= told.next_at:
            coming = ahead(max(last.last, told.last))
            if coming:
                told = _Told(coming[-1].last, coming[0].first)
                fresh = [chunk for chunk in coming if chunk not in self.cache]
                self.cache.counts.bytes_ahead += sum(chunk.size for chunk in fresh)
                self._tell(list(map(CachedStretch, _adjacent(fresh))))
        self._ends[last.file, last.offset + last.size] = told or _Told()
        if len(self._ends) > ENDS_MAX:
            self._ends.popitem(last=False)

    async def _open(self, number: int) -> File:
        file = self._files.pop(number, None)
        if file is None:
            file = await self._open_new(number)
        self._files[number] = file
        if len(self._files) > self._open_files_max:
            await self._files.pop(next(iter(self._files))).close()
        return file

    async def _open_new(self, number: int) -> File:
        """Open a file, unless another task was faster. Raises `FileNotFoundError` if the file was
        dropped meanwhile.
        """
        opening = self._opening.setdefault(number, _FileOpening())
        opening.tasks += 1
        try:
            file = await self._disk.open(entries_path(number))
        finally:
            opening.tasks -= 1
            if not opening.tasks and not opening.is_void:
                del self._opening[number]
        if opening.is_void:
            await file.close()
            raise FileNotFoundError(errno.ENOENT, "it was dropped", entries_path(number))
        raced = self._files.pop(number, None)
        if raced is None:
            return file
        await file.close()
        return raced

    def _void(self, number: int) -> None:
        """Close files with an open still in progress."""
        opening = self._opening.pop(number, None)
        if opening is not None:
            opening.is_void = True

    def retire(self, numbers: Iterable[int]) -> None:
        """Note files that only the older checkpoint lists."""
        self._retired += numbers

    def doom(self) -> None:
        """Note that there is a newer checkpoint: no checkpoint lists the files retired before."""
        self._doomed += self._retired
        self._retired.clear()

    async def drop_doomed(self) -> None:
        """Remove files that no checkpoint lists any more."""
        while self._doomed:
            await self.drop(self._doomed.pop(0))

    async def drop(self, number: int) -> None:
        """Remove a file that no checkpoint lists any more."""
        with suppress(FileNotFoundError):  # lost while it counted, and made up for
            await self._disk.unlink(entries_path(number))  # first: it cannot be opened after that
        self._void(number)
        self.cache.drop(number)
        file = self._files.pop(number, None)
        if file is not None:
            await file.close()

    async def close(self) -> None:
        """Close the files."""
        for number in list(self._opening):
            self._void(number)
        while self._files:
            await self._files.popitem()[1].close()


def _adjacent(chunks: Sequence[ChunkAt]) -> Iterable[list[ChunkAt]]:
    """Group chunks that follow each other in one file."""
    group = list(chunks[:1])
    for before, after in pairwise(chunks):
        if after.file != before.file or after.offset != before.offset + before.size:
            yield group
            group = []
        group.append(after)
    if group:
        yield group


def _shared(
    chunks: Sequence[ChunkAt], plan: Sequence[CachedStretch], wanted: tuple[EntryId, EntryId] | None
) -> Iterable[tuple[CachedStretch, Sequence[ChunkAt]]]:
    """Group chunks that are wanted whole and follow each other in one stretch."""
    start = 0
    for end in range(1, len(chunks) + 1):
        if (
            end == len(chunks)
            or plan[end] is not plan[start]
            or chunks[end].offset != chunks[end - 1].offset + chunks[end - 1].size
            or wanted is None
            or chunks[start].first < wanted[0]
            or chunks[end].last > wanted[1]
        ):
            yield plan[start], chunks[start:end]
            start = end


def _take(
    ledger: LedgerId,
    chunks: Sequence[ChunkAt],
    plan: Sequence[CachedStretch],
    wanted: tuple[EntryId, EntryId] | None,
) -> tuple[list[StoredRun], CorruptEntryError | None]:
    found: list[StoredRun] = []
    for stretch, group in _shared(chunks, plan, wanted):
        if stretch.data is None:
            reason = f"its file cannot be read: {stretch.error}"
            damage = CorruptEntryError(ledger, group[0].first, reason)
            damage.__cause__ = stretch.error
            return found, damage
        is_whole = wanted is not None and wanted[0] <= group[0].first <= group[-1].last <= wanted[1]
        if is_whole:
            try:
                found.append(stretch.run(ledger, group))
                continue
            except CorruptEntryError:
                pass  # the chunks before the damaged one are good
        for chunk in group:
            try:
                run = stretch.scanned(ledger, chunk)
            except CorruptEntryError as error:
                return found, error
            found.append(run)
    return found, None
