"""How a bookie learns what an operator wishes of it: it watches its own standing.

The record is read before the bookie serves, so a bookie that starts while it is away takes nothing
first. While the store is out of reach the last known wish stays, and an away still ends in time: by
the clock of the event loop, from when this process first saw the record. A wall clock that is wrong
can only make it shorter.

A record that this program cannot read changes nothing: a later program may know further wishes.

Owns one task. Not here: obedience (quire/storage/serving/obedient.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from quire.aio.backoff import Backoff
from quire.aio.retry import retry
from quire.aio.tasks import Tasks
from quire.aio.timing import time_limit
from quire.entry import BookieId
from quire.errors import CorruptRecordError, HandleClosedError, NoSuchNodeError, QuireError
from quire.metastore.layout import standing_path
from quire.metastore.standing import SERVING, Standing, Wish
from quire.metastore.store import MetadataStore

LOOK_SECONDS: Final = 10.0
"""The record is read so often, besides whenever a watch reports a change."""

BACKOFF: Final = Backoff(first=0.1, last=5.0)
"""Pauses while the store cannot be reached."""

_log = logging.getLogger(__name__)


class WishWatch:
    """Follows one bookie's standing. `look` once, then `start`; its owner closes it."""

    def __init__(
        self,
        store: MetadataStore,
        bookie: BookieId,
        obey: Callable[[Wish], None],
        clock: Callable[[], float],
    ) -> None:
        """`obey` is called with the wish that holds now, whenever it may have changed; `clock` is
        the wall clock, in seconds.
        """
        self._store = store
        self._bookie = bookie
        self._path = standing_path(bookie)
        self._obey = obey
        self._clock = clock
        self._tasks = Tasks()
        self._version: int | None = None
        self._standing: Standing = SERVING
        self._ends: float | None = None
        """Loop time when the wish is over."""
        self._told = Wish.SERVE

    @property
    def standing(self) -> Standing:
        """The record as it was read last."""
        return self._standing

    def start(self) -> None:
        """Begin to follow the record."""
        self._tasks.start(self._follow(), f"standing of bookie {self._bookie}")

    async def close(self) -> None:
        """Follow no longer."""
        await self._tasks.stop()

    async def look(self) -> None:
        """Read the record now, and obey it. Raises the store's errors."""
        try:
            found = await self._store.get(self._path)
        except NoSuchNodeError:
            self._take(SERVING, None)
            return
        if found.version != self._version:
            try:
                self._take(Standing.decode(self._bookie, found.value), found.version)
            except CorruptRecordError as error:
                _log.warning("bookie %s keeps its wish %s: %s", self._bookie, self._told, error)
                self._version = found.version
        self._tell()

    def _take(self, standing: Standing, version: int | None) -> None:
        left = standing.seconds_left(round(self._clock() * 1000))
        self._ends = None if left is None else asyncio.get_running_loop().time() + left
        self._standing, self._version = standing, version
        self._tell()

    def _tell(self) -> None:
        is_over = self._ends is not None and asyncio.get_running_loop().time() >= self._ends
        wish = Wish.SERVE if is_over else self._standing.wish
        if wish is not self._told:
            _log.warning(
                "bookie %s: the wish is now %s%s (it was %s)%s",
                *(self._bookie, wish, ", its time is over" if is_over else "", self._told),
                f": {self._standing.reason}" if self._standing.reason and not is_over else "",
            )
        self._told = wish
        self._obey(wish)

    async def _follow(self) -> None:
        with suppress(HandleClosedError):
            while True:
                await retry(self._step, on=QuireError, unless=_is_closed, backoff=BACKOFF)

    async def _step(self) -> None:
        """Wait for a change or for the end of an away, then look."""
        pause = LOOK_SECONDS
        if self._ends is not None and self._told is not Wish.SERVE:
            pause = min(pause, max(0.0, self._ends - asyncio.get_running_loop().time()))
        try:
            with suppress(TimeoutError):
                async with time_limit(pause):
                    await self._store.wait(self._path, self._version)
        finally:
            self._tell()  # an away ends although the store is out of reach
        await self.look()


def _is_closed(error: Exception) -> bool:
    return isinstance(error, HandleClosedError)
