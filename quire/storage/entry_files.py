"""Reading entry-log files: chunks fetched in as few reads as possible, each verified.

Chunks that follow each other are one read of the disk, reads of several files run side by side, and
while somebody who reads in order is being served the next stretch is already on its way. Somebody
reads in order who begins in, or right behind, the chunk where a read ended a while ago.

A bounded number of files is held open; the least recently used goes first. (Closing a file lets
reads under way finish.)
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Final

from quire.entry import EntryId, LedgerId
from quire.errors import CorruptEntryError
from quire.storage.disk import Disk, File
from quire.storage.entry_log import ChunkAt, entries_path
from quire.storage.read_cache import ReadCache, Stretch
from quire.storage.stored_run import StoredRun

ENDS_MAX: Final = 4096
"""Places at which reads ended that are remembered: readers that can be told apart."""

SIDE_BY_SIDE_MIN: Final = 4
"""Fewer reads go one after the other: mostly the page cache has them, and a task costs as much."""

AHEAD_MAX: Final = 8
"""Reads ahead that may be under way at once: twice the threads there are for reads."""


class EntryFiles:
    """The open entry-log files of a bookie, and what was read from them lately."""

    def __init__(self, disk: Disk, open_files_max: int, cache: ReadCache | None = None) -> None:
        self._disk = disk
        self._open_files_max = open_files_max
        self._files: dict[int, File] = {}
        self.cache: Final = ReadCache(0) if cache is None else cache
        self._ends: OrderedDict[tuple[int, int], None] = OrderedDict()
        self._ahead: list[asyncio.Task[None]] = []

    async def read(
        self, ledger: LedgerId, chunks: Sequence[ChunkAt]
    ) -> tuple[list[StoredRun], CorruptEntryError | None]:
        """Return the chunks' runs, in order, up to one that is damaged or cannot be read.

        The bytes come from the disk and every frame is looked at.
        """
        stretches = [Stretch(group) for group in _adjacent(chunks)]
        await self._fetch_all(stretches)
        plan = [stretch for stretch in stretches for _ in stretch.chunks]
        return _take(ledger, chunks, plan, None)

    async def serve(
        self,
        ledger: LedgerId,
        chunks: Sequence[ChunkAt],
        wanted: tuple[EntryId, EntryId] | None,
        ahead: Callable[[], Sequence[ChunkAt]],
    ) -> tuple[list[StoredRun], CorruptEntryError | None]:
        """Return as `read`, through the cache. Chunks that lie between the two ids `wanted` are
        believed whole, without a look at each frame. `ahead` tells which chunks come next: they are
        fetched if the reader reads in order.
        """
        if not chunks:
            return [], None
        plan = self._plan(chunks)
        if all(stretch.data is not None for stretch in plan):
            await asyncio.sleep(0)  # whoever reads in a loop lets others run
        await self._fetch_all(dict.fromkeys(plan))
        if self._is_in_order(chunks) and plan[-1].is_nearly_used(chunks[-1]):
            self._fetch_ahead(ahead())
        for stretch in dict.fromkeys(plan):
            if stretch.chunks[0] not in self.cache:
                self.cache.put(stretch)
        found, damage = _take(ledger, chunks, plan, wanted)
        if damage is not None:
            for stretch in dict.fromkeys(plan):
                self.cache.forget(stretch)
        return found, damage

    def _plan(self, chunks: Sequence[ChunkAt]) -> list[Stretch]:
        """Return the stretch of each chunk: one that is kept, or on its way, or a new one."""
        kept = [self.cache.find(chunk) for chunk in chunks]
        missing = [chunk for chunk, found in zip(chunks, kept, strict=True) if found is None]
        fresh = iter([new for new in map(Stretch, _adjacent(missing)) for _ in new.chunks])
        counts = self.cache.counts
        counts.chunks_fetched += len(missing)
        counts.chunks_cached += len(chunks) - len(missing)
        return [next(fresh) if found is None else found for found in kept]

    async def _fetch_all(self, stretches: Iterable[Stretch]) -> None:
        wanted = [stretch for stretch in stretches if stretch.data is None]
        if len(wanted) >= SIDE_BY_SIDE_MIN:
            await asyncio.gather(*map(self._fetch, wanted))
            return
        for stretch in wanted:
            await self._fetch(stretch)

    async def _fetch(self, stretch: Stretch) -> None:
        """See that the bytes of a stretch are there; else it knows the error."""
        if stretch.fetching is not None:
            await asyncio.wait([stretch.fetching])
            if stretch.data is not None:
                return
        try:
            await self._read(stretch)
        except OSError as error:
            stretch.error = error

    async def _read(self, stretch: Stretch) -> None:
        file = await self._open(stretch.chunks[0].file)
        stretch.data = await file.read(stretch.chunks[0].offset, stretch.bytes)

    def _is_in_order(self, chunks: Sequence[ChunkAt]) -> bool:
        """Tell whether a reader goes on where one ended before, and note where it ends now."""
        first, last = chunks[0], chunks[-1]
        places = ((first.file, first.offset), (first.file, first.offset + first.size))
        is_known = any(place in self._ends for place in places)
        for place in places:
            self._ends.pop(place, None)
        self._ends[last.file, last.offset + last.size] = None
        if len(self._ends) > ENDS_MAX:
            self._ends.popitem(last=False)
        return is_known

    def _fetch_ahead(self, chunks: Sequence[ChunkAt]) -> None:
        """Begin to read chunks somebody will ask for, unless most of them are there already."""
        missing = [chunk for chunk in chunks if chunk not in self.cache]
        if 2 * len(missing) < len(chunks):
            return
        for stretch in map(Stretch, _adjacent(missing)):
            if stretch.size > self.cache.bytes_max or len(self._ahead) >= AHEAD_MAX:
                return
            self.cache.counts.bytes_ahead += stretch.bytes
            self.cache.put(stretch)
            stretch.fetching = asyncio.create_task(self._read_ahead(stretch))
            self._ahead.append(stretch.fetching)
            stretch.fetching.add_done_callback(self._ahead.remove)

    async def _read_ahead(self, stretch: Stretch) -> None:
        try:
            await self._read(stretch)
        except OSError:
            self.cache.forget(stretch)  # whoever wants it reads for himself, and reports it

    async def _open(self, number: int) -> File:
        file = self._files.pop(number, None)
        if file is None:
            file = await self._disk.open(entries_path(number))
            raced = self._files.pop(number, None)
            if raced is not None:
                await file.close()
                file = raced
        self._files[number] = file
        if len(self._files) > self._open_files_max:
            await self._files.pop(next(iter(self._files))).close()
        return file

    async def drop(self, number: int) -> None:
        """Remove a file that no checkpoint lists any more."""
        with suppress(FileNotFoundError):  # lost while it counted, and made up for
            await self._disk.unlink(entries_path(number))  # first: nobody opens it after that
        self.cache.drop(number)
        file = self._files.pop(number, None)
        if file is not None:
            await file.close()

    async def close(self) -> None:
        """Give up what is being read ahead, and close the files."""
        ahead = list(self._ahead)
        for task in ahead:
            task.cancel()
        await asyncio.gather(*ahead, return_exceptions=True)
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
    chunks: Sequence[ChunkAt], plan: Sequence[Stretch], wanted: tuple[EntryId, EntryId] | None
) -> Iterable[tuple[Stretch, Sequence[ChunkAt]]]:
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
    plan: Sequence[Stretch],
    wanted: tuple[EntryId, EntryId] | None,
) -> tuple[list[StoredRun], CorruptEntryError | None]:
    found: list[StoredRun] = []
    for stretch, group in _shared(chunks, plan, wanted):
        if stretch.data is None:
            reason = f"its file cannot be read: {stretch.error}"
            return found, CorruptEntryError(ledger, group[0].first, reason)
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
