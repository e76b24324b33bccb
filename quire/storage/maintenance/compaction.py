"""Giving back the disk space of deleted ledgers, and joining files that are many and small.

`choose` (pure) picks the next step; `Compactor` does it. The live entries of neighbouring files are
copied into one new file, which takes their place in the checkpoint; only then are they removed. So
a crash leaves the old files or the new one, and reads find the same entries at any time. Copies are
verified like every read. A file with damage stays as it is: its entries may be the only copies.

Copying keeps to a rate, so that it never competes with the journal. A file without live entries is
removed after a write of the checkpoint alone: that works when the disk is full.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from quire.entry import LedgerId
from quire.errors import CorruptEntryError
from quire.storage.disk.port import Disk
from quire.storage.entries.entry_log import ENTRIES, EntryIndex, EntryWriter, entries_path
from quire.storage.entries.file_set import FileUse
from quire.storage.entries.ledger_state import encode_row
from quire.storage.entries.ledger_storage import LedgerStorage
from quire.storage.journal.options import StorageOptions

COPY_BYTES: Final = 1024 * 1024
"""Read, and written, at a time."""

JOIN_FILES_MIN: Final = 8
"""As many small neighbours become one: every entry is then copied log₈ times in its life, and a
ledger that was written beside a thousand others is read in an eighth of the pieces or less."""

WIDE_FILE_BYTES: Final = 16 * 1024 * 1024
WIDE_PART_BYTES: Final = 1024 * 1024
"""A file of a few large ledgers is left as it is: a seek for so much is no cost to a reader, and
a copy would be half as many bytes again as a bulk writer causes without it. A smaller file is
joined."""

WIDE_FILES_MAX: Final = 4096
"""Beyond so many neighbours large ledgers are joined as well: a start reads the index of each file,
so it takes a minute with a slow disk."""


class CompactionPlan(NamedTuple):
    """Neighbours to replace by one file, or, when `is_empty`, files to remove."""

    files: tuple[int, ...]
    is_empty: bool = False


def choose(
    uses: Sequence[FileUse], live_share: float, joined_bytes_max: int, room_bytes: int
) -> CompactionPlan | None:
    """Return the next step; None when there is nothing to do.

    `live_share`: a file with a smaller live share is written anew. `room_bytes`: a copy may not be
    larger. Files that are known to be damaged are not among `uses` as candidates.
    """
    empty = tuple(use.number for use in uses if not use.live_bytes and not use.rows)
    if empty:
        return CompactionPlan(empty, is_empty=True)
    wasteful = [
        use
        for use in uses
        if use.live_bytes < live_share * use.bytes and use.live_bytes <= room_bytes
    ]
    if wasteful:
        return CompactionPlan((min(wasteful, key=lambda use: use.live_bytes / use.bytes).number,))
    return _join(uses, min(joined_bytes_max, room_bytes))


def _join(uses: Sequence[FileUse], bytes_max: int) -> CompactionPlan | None:
    """Return the longest stretch of small neighbours that fit into one file together."""
    best: Sequence[FileUse] = []
    are_few = len(uses) <= WIDE_FILES_MAX
    start = size = 0
    for end, use in enumerate(uses, 1):
        size += use.live_bytes
        if use.live_bytes > bytes_max // JOIN_FILES_MIN or (are_few and _is_wide(use)):
            start, size = end, 0
        while size > bytes_max:
            size -= uses[start].live_bytes
            start += 1
        if end - start > len(best):
            best = uses[start:end]
    if len(best) < JOIN_FILES_MIN:
        return None
    return CompactionPlan(tuple(use.number for use in best))


def _is_wide(use: FileUse) -> bool:
    return use.live_bytes >= max(WIDE_FILE_BYTES, use.ledgers * WIDE_PART_BYTES)


@dataclass(slots=True)
class CompactionCounts:
    """What compaction did since the start."""

    files_removed: int = 0
    files_written: int = 0
    bytes_copied: int = 0
    bytes_reclaimed: int = 0
    files_damaged: int = 0


class Compactor:
    """Carries out plans, one at a time."""

    def __init__(self, disk: Disk, storage: LedgerStorage, options: StorageOptions) -> None:
        self._disk = disk
        self._storage = storage
        self._options = options
        self._damaged: list[int] = []
        self._left: set[int] = set()
        """Files that are mostly of deleted ledgers, as far as the last question told."""
        self._turn = asyncio.Lock()
        """Held while files are replaced, by the collector or by a repair of a file."""
        self.counts: Final = CompactionCounts()

    def avoid(self, number: int) -> None:
        """Leave a damaged file as it is."""
        if number not in self._damaged:
            self._damaged.append(number)
            self.counts.files_damaged += 1

    def avoids(self, number: int) -> bool:
        """Whether a file is left as it is because of damage."""
        return number in self._damaged

    async def step(self, live_share: float) -> bool:
        """Do the most useful step that gives space back; tell whether there was one. Raises
        OSError, and ENOSPC among it, after which nothing is lost.
        """
        async with self._turn:
            self._left.clear()
            plan = self._plan(self._storage.shelf.uses(), live_share, await self._room(), 0)
            return await self._do(plan)

    async def join(self, is_wanted: Callable[[Sequence[int]], Awaitable[bool]]) -> bool:
        """Join small neighbours if there are enough; tell whether there were. Unlike `step` it
        looks at no ledger to find that out: a file counts as if all of it were wanted. Raises as
        `step`, and the errors of `is_wanted`.

        `is_wanted` is asked before files are copied. If not, they stay until `step`.
        """
        async with self._turn:
            plan = await self._joining()
        if plan is None:
            return False
        if not await is_wanted(plan.files):
            self._left.update(plan.files)
            return True
        async with self._turn:  # meanwhile a repair may have replaced one of them
            return plan == await self._joining() and await self._do(plan)

    async def _joining(self) -> CompactionPlan | None:
        room = await self._room()
        uses, most = self._storage.shelf.full_uses(), self._options.joined_bytes_max
        return self._plan(uses, 0.0, room, most, self._left)

    async def _room(self) -> int:
        """Return how large a copy may be, where entry logs go."""
        return (await self._disk.space(ENTRIES)).free_bytes // 2

    async def _do(self, plan: CompactionPlan | None) -> bool:
        if plan is None:
            return False
        await self._carry_out(plan)
        return True

    async def rewrite(self, number: int) -> bool:
        """Write the live entries of a file to a new one; tell whether all of them could be read,
        and there is space for them. Raises as `step`.
        """
        async with self._turn:
            use = next((each for each in self._storage.shelf.uses() if each.number == number), None)
            if use is None:
                return True
            if use.live_bytes > await self._room():
                return False
            is_empty = not use.live_bytes and not use.rows
            return await self._carry_out(CompactionPlan((number,), is_empty))

    async def _carry_out(self, plan: CompactionPlan) -> bool:
        """Replace files; False, and nothing done, when one of them turns out to be damaged."""
        before = self._storage.shelf.bytes_of(plan.files)
        try:
            index = None if plan.is_empty else await self._copy(plan.files)
        except CorruptEntryError as error:
            await self._avoid_damaged(error, plan.files)
            return False
        try:
            await self._storage.replace(plan.files, index)
        except OSError as error:
            is_listed = index is None or index.number in self._storage.shelf
            if error.errno == errno.ENOSPC and index is not None and not is_listed:
                await self._disk.unlink(entries_path(index.number))
            raise
        self.counts.files_removed += len(plan.files)
        self.counts.files_written += index is not None
        kept = () if index is None else index.ledgers.values()
        self.counts.bytes_reclaimed += before - sum(part.bytes for part in kept)
        self._damaged = [number for number in self._damaged if number not in plan.files]
        return True

    async def _avoid_damaged(self, error: CorruptEntryError, files: Sequence[int]) -> None:
        """Leave files with a damaged chunk alone; all, when it can be read by now."""
        parts = self._storage.shelf.parts_in(error.ledger, files)
        chunks = [chunk for part in parts for chunk in part.all() if chunk.first == error.entry]
        damaged = [
            chunk.file for chunk in chunks if await self._storage.reads.verify(error.ledger, chunk)
        ]
        for number in damaged or files:
            self.avoid(number)

    def _plan(
        self,
        uses: list[FileUse],
        live_share: float,
        room_bytes: int,
        joined_bytes_max: int,
        left: Container[int] = (),
    ) -> CompactionPlan | None:
        """Choose among stretches of files without damage, or without a wanted entry. Files `left`
        stay.
        """
        stretch: list[FileUse] = []
        for use in [*uses, None]:
            stays = use is None or use.number in left
            if use is not None and not stays and not (use.live_bytes and self.avoids(use.number)):
                stretch.append(use)
                continue
            most = joined_bytes_max
            plan = choose(stretch, live_share, most, room_bytes) if stretch else None
            if plan is not None:
                return plan
            stretch = []
        return None

    async def _copy(self, files: tuple[int, ...]) -> EntryIndex:
        writer = self._storage.new_file()

        async def fill() -> None:
            for ledger in self._storage.shelf.members(files):
                await self._copy_ledger(writer, ledger, files)

        try:
            return await writer.write_by(fill, lambda: self._rows(files))
        except CorruptEntryError:
            await self._disk.unlink(entries_path(writer.number))
            raise

    async def _copy_ledger(
        self, writer: EntryWriter, ledger: LedgerId, files: tuple[int, ...]
    ) -> None:
        parts = self._storage.shelf.parts_in(ledger, files)
        if not parts:
            return  # deleted meanwhile
        first, last = min(part.first for part in parts), max(part.last for part in parts)
        while first <= last:
            found, complete_to = await self._storage.reads.find_tidy(
                ledger, parts, first, last, COPY_BYTES
            )
            await writer.put(ledger, found)
            size = sum(part.size for part in found)
            self.counts.bytes_copied += size
            await asyncio.sleep(size / self._options.upkeep_bytes_per_second)
            first = complete_to + 1

    def _rows(self, files: tuple[int, ...]) -> bytes:
        """Return the rows that would be lost with the files, as the states are now. The states in
        memory are durable in the journal, or harmless to know early.
        """
        states = self._storage.states
        rows = self._storage.shelf.rows_in(files)
        return b"".join(encode_row(states[ledger]) for ledger in rows if ledger in states)
