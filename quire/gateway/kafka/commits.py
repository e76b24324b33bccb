"""Commits of offsets that come during a write go into the next write, together.

A commit writes to the metadata store, and waits for a disk. Kafka's clients send many: one for each
poll, without waiting for the earlier ones. Written one by one they would come faster than they are
written, and clients would end the connection because answers come too late.

The last of the waiting offsets is written: the others would have been written over at once.

Invariants:
  - Commits of one group to one log take effect in their order of arrival.
  - A commit returns once a write that began after it has succeeded: its own, or one with a later
    commit in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from quire.errors import InvalidRequestError

WRITES_MAX: Final = 16
"""Writes of all groups that are under way at the same time."""

Write: TypeAlias = Callable[[int], Awaitable[None]]
"""Writes an offset. Raises `QuireError`."""


class _Place:
    """The commits of one group to one log."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.users = 0
        self.asked = 0
        """Number of the last commit that came."""
        self.offset = 0
        """Its offset."""
        self.written = 0
        """Number of the last commit in a write that succeeded."""


class OffsetCommits:
    """The commits under way of all groups of one gateway."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], _Place] = {}
        self._writes = asyncio.Semaphore(WRITES_MAX)

    async def commit(self, group: str, log: str, offset: int, write: Write) -> None:
        """Write an offset, or have a later commit of this group to this log written instead.

        Args:
            group: the group that commits.
            log: the log that it read.
            offset: the offset of the record to read next.
            write: writes an offset; the same for all commits of a group to a log.

        Raises:
            QuireError: whatever `write` raises for this commit. An invalid later offset is not this
                commit's error.

        Cancellation: the offset may have been written. Other commits go on.
        """
        with self._place(group, log) as place:
            place.asked += 1
            place.offset = offset
            own = place.asked
            async with place.turn, self._writes:
                if place.written >= own:
                    return
                last, wanted = place.asked, place.offset
                try:
                    await write(wanted)
                except InvalidRequestError:
                    if last == own:
                        raise
                    await write(offset)
                    last = own
                place.written = last

    @contextmanager
    def _place(self, group: str, log: str) -> Iterator[_Place]:
        place = self._places.setdefault((group, log), _Place())
        place.users += 1
        try:
            yield place
        finally:
            place.users -= 1
            if not place.users:
                del self._places[group, log]
