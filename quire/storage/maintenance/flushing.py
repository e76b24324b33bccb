"""A bookie's work beside its requests: flush, reclaim the journal, watch the free space.

One task. A flush is asked for when a limit is reached; it is never timed. A full disk ends
nothing: the bookie becomes read-only and the flush is tried again when space is looked at next. Any
other failure is fatal, because data that failed once on its way to the disk cannot be trusted.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Final

from quire.aio.tasks import Tasks
from quire.aio.timing import time_limit
from quire.entry import BookieId
from quire.errors import ReadOnlyBookieError
from quire.storage.disk.port import Disk, DiskSpace
from quire.storage.entries.ledger_storage import LedgerStorage
from quire.storage.entries.memory_limiter import Gate
from quire.storage.entries.reserve import Reserve
from quire.storage.journal.options import StorageOptions
from quire.storage.journal.replay import JournalPosition
from quire.storage.journal.segments import Segments

NEARLY_FULL: Final = "its disk is nearly full"

SEGMENTS_MIN: Final = 2
"""Segments a journal has in any case: the one being filled, and the next."""


class Upkeep:
    """See the module. Owned by the node."""

    def __init__(
        self,
        bookie: BookieId,
        disk: Disk,
        storage: LedgerStorage,
        segments: Segments,
        gate: Gate,
        options: StorageOptions,
        position: Callable[[], JournalPosition],
        on_fatal: Callable[[BaseException], None],
        reserve: Reserve,
    ) -> None:
        self._reserve = reserve
        self._bookie = bookie
        self._disk = disk
        self._storage = storage
        self._segments = segments
        self._gate = gate
        self._options = options
        self._position = position
        self._on_fatal = on_fatal
        self._has_room = True
        self._is_blocked = False
        """The last flush met a full disk."""
        self.space = DiskSpace(0, 0)
        """As it was seen last: asking again could hang with the disk."""
        self._wanted = asyncio.Event()
        self._must_flush = False
        self._is_closing = False
        self._tasks = Tasks(on_fatal)

    @property
    def has_room(self) -> bool:
        """Whether the disk had space for new entries when it was looked at."""
        return self._has_room

    @property
    def is_writable(self) -> bool:
        """There is space for new entries, for what recovery needs after that, and for a start."""
        return self._has_room and not self._segments.is_starved and self._reserve.is_whole

    def start(self) -> None:
        self._tasks.start(self._run(), f"flushing of {self._bookie}")

    def request_flush(self) -> None:
        """Ask for a flush soon."""
        self._must_flush = True
        self._wanted.set()

    def look(self) -> None:
        """Ask for a flush if a limit is reached. Called for every batch of the journal."""
        cached = self._storage.cached_bytes
        if (
            cached >= self._options.write_cache_bytes
            or (cached and self._gate.is_crowded)
            or len(self._segments.live) > self._options.journal_segments_max
        ):
            self.request_flush()

    async def _run(self) -> None:
        while not self._is_closing:
            await self.look_for_room()
            await self._wait()
            if self._must_flush:
                await self.flush()

    async def _wait(self) -> None:
        try:
            async with time_limit(self._options.space_check_seconds):
                await self._wanted.wait()
        except TimeoutError:
            return
        finally:
            self._wanted.clear()

    async def flush(self) -> bool:
        """Flush once; tell whether that was done, which a full disk prevents. Raises OSError for
        anything else.
        """
        self._must_flush = False
        try:
            freed = await self._storage.flush(self._position)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self._must_flush = self._is_blocked = True
            self._close_door()
            return False
        self._is_blocked = False
        if freed:  # else waiters would ask for the next one, which frees as little
            self._gate.leave(freed)
        await self._segments.release(self._storage.checkpoint.position.segment)
        self.look()
        return True

    async def flush_to_its_end(self) -> bool:
        """Flush as `flush` does, for a task that may be cancelled: the flush goes on, and `close`
        waits for it.
        """
        return await asyncio.shield(self._tasks.keep(self._flush_or_die()))

    async def _flush_or_die(self) -> bool:
        try:
            return await self.flush()
        except OSError as error:
            self._on_fatal(error)  # its caller may have been cancelled
            raise

    async def look_for_room(self) -> None:
        """Compare the free space with the low mark, or with the high one to open again."""
        self.space = await self._disk.space()
        free, total = self.space.free_bytes, self.space.total_bytes
        high = self._options.high_mark(total)
        if free >= (self._options.low_mark(total) if self._has_room else high):
            self._has_room = not self._is_blocked
        else:
            self._close_door()
        if free < high:
            await self._segments.drop_spares()
        if free < high and len(self._segments.live) > SEGMENTS_MIN and not self._is_blocked:
            self.request_flush()

    def _close_door(self) -> None:
        """Take no new entries; refuse those waiting for memory, which will not come."""
        self._has_room = False
        self._gate.turn_away(ReadOnlyBookieError(self._bookie, NEARLY_FULL))

    async def close(self) -> None:
        """Finish a flush under way and stop."""
        self._is_closing = True
        self._wanted.set()
        await self._tasks.join()

    async def abort(self) -> None:
        """Stop as a crash would."""
        await self._tasks.stop()
