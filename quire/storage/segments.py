"""The journal's files: prepared before they are needed, reused after they are.

    <number>.journal   a segment, its name and header durable before the first record goes in
    <number>.spare     a file of the right size whose content means nothing: the raw material

A segment is made of a spare, one is zero-written and synced if there is none: overwriting blocks
that exist syncs twice as fast as growing a file. What becomes of a file is always a rename between
the two names with the directory synced in between, so content is interpreted only under the name
that promises it:

    n.journal → n.spare, sync directory → write header of m, sync → m.journal, sync directory

The next segment is prepared in the background while the present one fills. When the disk is full
that waits, `is_starved` is set, and the preparation is tried again when space may be back.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quire.storage.disk import Disk, File
from quire.storage.options import StorageOptions
from quire.storage.record import SegmentHeader, encode_segment
from quire.timing import time_limit

JOURNAL: Final = "journal"
SEGMENT_SUFFIX: Final = ".journal"
SPARE_SUFFIX: Final = ".spare"
ZERO_BYTES: Final = 1024 * 1024
"""A new spare is written and synced in steps of this, so that adds never wait behind all of it."""


def numbered(names: list[str], suffix: str) -> list[int]:
    """Return, ascending, the numbers of the files that are ours: 16 hexadecimal digits and a
    suffix.
    """
    digits = "0123456789abcdef"
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(stem, 16) for stem in stems if len(stem) == 16 and not stem.strip(digits))


def segment_path(number: int) -> str:
    return f"{JOURNAL}/{number:016x}{SEGMENT_SUFFIX}"


def spare_path(number: int) -> str:
    return f"{JOURNAL}/{number:016x}{SPARE_SUFFIX}"


@dataclass(frozen=True, slots=True)
class Segment:
    """An open segment that is ready for records."""

    header: SegmentHeader
    file: File


class Segments:
    """Makes, hands out and takes back segments. One owner: the journal and its checkpoints."""

    def __init__(
        self,
        disk: Disk,
        bookie: str,
        options: StorageOptions,
        rng: random.Random,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._disk = disk
        self._bookie = bookie
        self._options = options
        self._rng = rng
        self._on_fatal = on_fatal
        self._spares: list[int] = []
        self._live: list[int] = []
        self._number = 0
        self._next: asyncio.Future[Segment] | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self.is_starved = False
        self.on_starved: Callable[[], None] = lambda: None
        """Called when a segment cannot be made because the disk is full, every time it is tried."""

    @property
    def live(self) -> list[int]:
        """Numbers of the segments whose records may still be needed, ascending."""
        return list(self._live)

    async def load(self, first: int) -> list[int]:
        """List what is there; return the numbers from `first` on. Spares of a wrong size are
        removed.
        """
        names = await self._disk.list(JOURNAL)
        self._live = numbered(names, SEGMENT_SUFFIX)
        spares = numbered(names, SPARE_SUFFIX)
        self._number = max([*self._live, *spares, first])
        self._spares.clear()
        for number in spares:
            file = await self._disk.open(spare_path(number))
            is_whole = file.size == self._options.segment_bytes
            await file.close()
            if is_whole and len(self._spares) < self._options.spare_segments_max:
                self._spares.append(number)
            else:
                await self._disk.unlink(spare_path(number))
        return [number for number in self._live if number >= first]

    async def create(self, previous: int) -> Segment:
        """Return a new segment whose name and header are durable.

        Raises OSError; after ENOSPC nothing changed, so numbers stay without a gap.
        """
        number = self._number + 1
        spare, file = await self._open_spare(number)
        identity = self._rng.getrandbits(64) | 1
        header = SegmentHeader(number, identity, previous, file.size, self._bookie)
        try:
            await file.write(0, [encode_segment(header)], sync=True)
            await self._disk.rename(spare_path(spare), segment_path(number))
            self._spares.remove(spare)
            self._number = number
            self._live.append(number)
            await self._disk.sync_directory(JOURNAL)
        except BaseException:  # cancellation too: nobody else knows the file
            await file.close()
            raise
        return Segment(header, file)

    async def _open_spare(self, number: int) -> tuple[int, File]:
        """Open a spare, made under a number if there is none. One that was a segment when segments
        had another size is removed.
        """
        while True:
            if not self._spares:
                self._spares.append(await self._make_spare(number))
            spare = self._spares[-1]
            file = await self._disk.open(spare_path(spare))
            if file.size == self._options.segment_bytes:
                return spare, file
            await file.close()
            await self._disk.unlink(spare_path(spare))
            self._spares.remove(spare)

    async def _make_spare(self, number: int) -> int:
        """Write a file full of zeros; on a full disk leave nothing behind."""
        path = spare_path(number)
        file = await self._disk.open(path, create=True)
        zeros = bytes(min(ZERO_BYTES, self._options.segment_bytes))
        try:
            for offset in range(0, self._options.segment_bytes, len(zeros)):
                room = self._options.segment_bytes - offset
                await file.write(offset, [zeros[:room]], sync=True)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                await self._disk.unlink(path)
            raise
        finally:
            await file.close()
        return number

    def prepare(self, previous: int) -> None:
        """Begin to make the segment that `take` will return."""
        self._next = asyncio.get_running_loop().create_future()
        self._preparing = asyncio.create_task(self._prepare(previous, self._next))

    async def _prepare(self, previous: int, ready: asyncio.Future[Segment]) -> None:
        try:
            while True:
                try:
                    segment = await self.create(previous)
                    break
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                await self._wait_for_room()
            self.is_starved = False
            ready.set_result(segment)
        except Exception as error:
            ready.cancel()
            self._on_fatal(error)

    async def _wait_for_room(self) -> None:
        self.is_starved = True
        self.on_starved()
        self._room.clear()
        try:
            async with time_limit(self._options.space_check_seconds):
                await self._room.wait()
        except TimeoutError:
            return

    async def take(self) -> Segment:
        """Return the prepared segment, waiting until it is ready, and begin the one after it."""
        assert self._next is not None
        segment = await asyncio.shield(self._next)
        self.prepare(segment.header.identity)
        return segment

    async def release(self, before: int) -> None:
        """Give up the segments below a number: nothing in them is needed any more. Raises
        OSError.
        """
        old = [number for number in self._live if number < before]
        kept = old[: max(0, self._options.spare_segments_max - len(self._spares))]
        self._live = [number for number in self._live if number >= before]
        for number in old:
            if number in kept:
                await self._disk.rename(segment_path(number), spare_path(number))
            else:
                await self._disk.unlink(segment_path(number))
        if old:
            await self._disk.sync_directory(JOURNAL)
            self._spares.extend(kept)
            self._room.set()

    async def close(self) -> None:
        """Stop preparing."""
        if self._preparing is None:
            return
        self._preparing.cancel()
        await asyncio.gather(self._preparing, return_exceptions=True)
        if self._next is not None and self._next.done() and not self._next.cancelled():
            await self._next.result().file.close()
