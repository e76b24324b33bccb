"""The journal's files: prepared before they are needed, reused after they are.

    <number>.journal   a segment, its name and header durable before the first record goes in
    <number>.spare     a file of the right size whose content means nothing: the raw material

A segment is made of a spare, which is zero-written and synced if it is missing: overwriting blocks
that exist syncs twice as fast as growing a file. A file changes its kind by a rename between the
two names, with the directory synced in between, so content is interpreted only under the name
that promises it:

    n.journal → n.spare, sync directory → write header of m, sync → m.journal, sync directory

The next segment is prepared in the background while the present one fills. One spare is kept back
for the next start, which may find the disk full, and before a next segment is made the bookie's
reserve must be whole (reserve.py). When the disk has no space for all of this, the preparation
waits, `is_starved` is set, and it is tried again when space may be back.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from quire.aio.timing import time_limit
from quire.storage.disk.port import Disk, File
from quire.storage.disk.renewal import RENEWED_SUFFIX, is_renamed, list_renewed
from quire.storage.disk.state_file import sync_names
from quire.storage.journal.options import StorageOptions
from quire.storage.journal.record import SegmentHeader, encode_segment

JOURNAL: Final = "journal"
SEGMENT_SUFFIX: Final = ".journal"
SPARE_SUFFIX: Final = ".spare"
ZERO_BYTES: Final = 1024 * 1024
"""A new spare is written and synced in steps of this, so that adds never wait for all of it."""

KEPT_BACK: Final = 1
"""Spares that only a start may use: the last segment of this process may have used the others.

The reserve cannot replace it. A disk may become full while the next segment is prepared, so the
live segment is the only one, with runs up to its `last_bytes`. Their entry log takes 3/4 of a
segment, and the reserve has 13/8: 7/8 are left, and the segment of the start needs all 8/8. The
live one is given up only after that.
"""


def numbered(names: list[str], suffix: str) -> list[int]:
    """Return, ascending, the numbers of the files that are ours: 16 hexadecimal digits and a
    suffix.
    """
    digits = "0123456789abcdef"
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(stem, 16) for stem in stems if len(stem) == 16 and not stem.strip(digits))


async def write_zeros(disk: Disk, path: str, size: int) -> None:
    """Make a file full of zeros, in steps; on a full disk leave nothing of it. Raises OSError."""
    if (await disk.space(path.rpartition("/")[0])).free_bytes < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)  # before it is filled in vain
    file = await disk.open(path, create=True)
    zeros = bytes(min(ZERO_BYTES, size))
    try:
        for offset in range(0, size, len(zeros)):
            await file.write(offset, [zeros[: size - offset]], sync=True)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            await disk.unlink(path)
        raise
    finally:
        await file.close()


def segment_path(number: int) -> str:
    return f"{JOURNAL}/{number:016x}{SEGMENT_SUFFIX}"


def spare_path(number: int) -> str:
    return f"{JOURNAL}/{number:016x}{SPARE_SUFFIX}"


@dataclass(frozen=True, slots=True)
class JournalSegment:
    """An open segment that is ready for records."""

    header: SegmentHeader
    file: File


async def _whole() -> None:
    """Do nothing: this disk has no reserve."""


class Segments:
    """Makes, hands out and takes back segments. One owner: the journal and its checkpoints."""

    def __init__(
        self,
        disk: Disk,
        bookie: str,
        options: StorageOptions,
        rng: random.Random,
        on_fatal: Callable[[BaseException], None],
        restore: Callable[[], Awaitable[None]] = _whole,
    ) -> None:
        """`restore` makes the bookie's reserve whole, and raises ENOSPC without space."""
        self._disk = disk
        self._bookie = bookie
        self._options = options
        self._rng = rng
        self._on_fatal = on_fatal
        self._restore = restore
        self._turn = asyncio.Lock()
        """Held while spares are made, used or dropped."""
        self._spares: list[int] = []
        self._live: list[int] = []
        self._number = 0
        self._next: asyncio.Future[JournalSegment] | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self.is_starved = False
        """The disk lacks space for a next segment, or that is not known yet."""
        self.on_starved: Callable[[], None] = lambda: None
        """Called when a segment cannot be made because the disk is full, every time it is tried."""
        self.on_ready: Callable[[], None] = lambda: None
        """Called when `take` need not wait any more."""

    @property
    def live(self) -> list[int]:
        """Numbers of the segments with records that may still be needed, ascending."""
        return list(self._live)

    async def load(self, first: int) -> list[int]:
        """List the files; return the numbers from `first` on. Spares of a wrong size are
        removed, and the names of the others are durable afterwards.
        """
        spare_names = [n for n in await self._disk.list(JOURNAL) if SPARE_SUFFIX in n]
        names = await list_renewed(
            self._disk, JOURNAL, *(name.removesuffix(RENEWED_SUFFIX) for name in spare_names)
        )
        self._live = numbered(names, SEGMENT_SUFFIX)
        spares = numbered(names, SPARE_SUFFIX)
        self._number = max([*self._live, *spares, first])
        self._spares.clear()
        for number in spares:
            file = await self._disk.open(spare_path(number))
            is_whole = file.size == self._options.segment_bytes
            await file.close()
            if is_whole and len(self._spares) < self._spares_max:
                self._spares.append(number)
            else:
                await self._disk.unlink(spare_path(number))
        return [number for number in self._live if number >= first]

    @property
    def _spares_max(self) -> int:
        return max(KEPT_BACK, self._options.spare_segments_max)

    async def create(self, previous: int) -> JournalSegment:
        """Return a new segment with a durable name and header, be it of the last spare.

        Raises OSError; after ENOSPC nothing changed, so numbers stay without a gap.
        """
        async with self._turn:
            return await self._create(previous)

    async def _create(self, previous: int) -> JournalSegment:
        number = self._number + 1
        spare, file = await self._open_spare()
        identity = self._rng.getrandbits(64) | 1
        header = SegmentHeader(number, identity, previous, file.size, self._bookie)
        try:
            await file.write(0, [encode_segment(header)], sync=True)
            await self._disk.rename(spare_path(spare), segment_path(number))
            self._spares.remove(spare)
            self._number = number
            self._live.append(number)
            await sync_names(self._disk, JOURNAL)
        except BaseException:  # cancellation too: only this task knows the file
            await file.close()
            raise
        return JournalSegment(header, file)

    async def _open_spare(self) -> tuple[int, File]:
        """Open a spare, made if missing. A former segment of another size is removed."""
        while True:
            if not self._spares:
                await self._make_spare()
            spare = self._spares[-1]
            file = await self._disk.open(spare_path(spare))
            if file.size == self._options.segment_bytes:
                return spare, file
            await file.close()
            await self._disk.unlink(spare_path(spare))
            self._spares.remove(spare)

    async def stock(self) -> None:
        """Make the files that a start on a full disk needs: the reserve, and the spare kept back.

        Raises OSError; after ENOSPC the existing files stay, and this may be called again.
        """
        await self._restore()
        async with self._turn:
            await self._make_spares(KEPT_BACK)

    async def _make_spares(self, wanted: int) -> None:
        while len(self._spares) < wanted:
            await self._make_spare()

    async def _make_spare(self) -> None:
        number = self._number + 1
        while number in self._spares:
            number += 1
        await write_zeros(self._disk, spare_path(number), self._options.segment_bytes)
        await sync_names(self._disk, JOURNAL)
        self._spares.append(number)

    def prepare(self, previous: int) -> None:
        """Begin to make the segment that `take` will return."""
        self._next = asyncio.get_running_loop().create_future()
        self._preparing = asyncio.create_task(self._prepare(previous, self._next))

    async def _prepare(self, previous: int, ready: asyncio.Future[JournalSegment]) -> None:
        try:
            while True:
                try:
                    await self.stock()
                    segment = await self._create_next(previous)
                    break
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                await self._wait_for_room()
            self.is_starved = False
            ready.set_result(segment)
            self.on_ready()
        except Exception as error:
            ready.cancel()
            self.on_ready()
            self._on_fatal(error)

    async def _create_next(self, previous: int) -> JournalSegment:
        async with self._turn:
            await self._make_spares(KEPT_BACK + 1)
            return await self._create(previous)

    async def _wait_for_room(self) -> None:
        self.is_starved = True
        self.on_starved()
        self._room.clear()
        try:
            async with time_limit(self._options.space_check_seconds):
                await self._room.wait()
        except TimeoutError:
            return

    @property
    def is_ready(self) -> bool:
        """Whether `take` need not wait."""
        return self._next is not None and self._next.done()

    async def take(self) -> JournalSegment:
        """Return the prepared segment, waiting until it is ready, and begin the one after it."""
        assert self._next is not None
        segment = await asyncio.shield(self._next)
        self.prepare(segment.header.identity)
        return segment

    async def release(self, before: int) -> None:
        """Give up the segments below a number: nothing in them is needed any more. Raises
        OSError.
        """
        await self._give_up([number for number in self._live if number < before])

    async def keep_only(self, kept: int) -> None:
        """Give up all segments but one: those after it have no record. Raises OSError."""
        await self._give_up([number for number in self._live if number != kept])

    async def _give_up(self, old: list[int]) -> None:
        """Turn segments into spares, as many as are wanted, and remove the others. Raises
        OSError.
        """
        async with self._turn:
            wanted = max(0, self._spares_max - len(self._spares))
            usable = [number for number in old if number not in self._spares][:wanted]
            self._live = [number for number in self._live if number not in old]
            kept: list[int] = []
            for number in old:
                path = segment_path(number)
                # A full disk may lack the space for another name.
                if number in usable and await is_renamed(self._disk, path, spare_path(number)):
                    kept.append(number)
                else:
                    await self._disk.unlink(path)
            if old:
                await sync_names(self._disk, JOURNAL)
                self._spares.extend(kept)
                self._room.set()

    async def drop_spares(self) -> None:
        """Remove all spares but the spare kept back: others need the space. Raises OSError."""
        async with self._turn:
            dropped, self._spares = self._spares[KEPT_BACK:], self._spares[:KEPT_BACK]
            for number in dropped:
                await self._disk.unlink(spare_path(number))
            if dropped:
                await sync_names(self._disk, JOURNAL)
                self._room.set()

    async def close(self) -> None:
        """Stop preparing."""
        if self._preparing is None:
            return
        self._preparing.cancel()
        await asyncio.gather(self._preparing, return_exceptions=True)
        if self._next is not None and self._next.done() and not self._next.cancelled():
            await self._next.result().file.close()
