"""A bookie's heart: it writes its heartbeat into the metadata store, again and again.

One small record every half a minute, however much the bookie stores. A beat that cannot be
written is dropped: the next one is newer.

Owns one task. Not here: the record (quire/metastore/heartbeat.py).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from quire.aio.tasks import Tasks
from quire.aio.timing import time_limit
from quire.entry import BookieId
from quire.errors import NoSuchNodeError, QuireError
from quire.metastore.heartbeat import Heartbeat
from quire.metastore.layout import heartbeat_path
from quire.metastore.store import MetadataStore

BEAT_SECONDS: Final = 30.0
"""Fifty bookies write less than two records a second."""

JITTER: Final = 0.1
"""Bookies that start together do not beat together for long."""

ANSWER_SECONDS: Final = 10.0
"""A disk or a store that takes longer costs the beat."""

_log = logging.getLogger(__name__)


class Heart:
    """Writes one bookie's heartbeats from `start` to `close`."""

    def __init__(
        self,
        store: MetadataStore,
        bookie: BookieId,
        account: Callable[[], Awaitable[Heartbeat]],
        rng: random.Random,
    ) -> None:
        """`account` returns the bookie's account of itself."""
        self._store = store
        self._path = heartbeat_path(bookie)
        self._account = account
        self._rng = rng
        self._tasks = Tasks()
        self._early = asyncio.Event()

    async def start(self) -> None:
        """Beat, and begin to beat again and again."""
        await self._try()
        self._tasks.start(self._beat_on(), "heartbeat")

    def hurry(self) -> None:
        """Beat now: there is something new to say."""
        self._early.set()

    async def close(self) -> None:
        """Beat no longer. The last heartbeat stays."""
        await self._tasks.stop()

    async def _beat_on(self) -> None:
        while True:
            pause = BEAT_SECONDS * (1 - JITTER * self._rng.random())
            with suppress(TimeoutError):
                async with time_limit(pause):
                    await self._early.wait()
            await self._try()

    async def _try(self) -> None:
        self._early.clear()
        try:
            async with time_limit(ANSWER_SECONDS):
                await self._beat()
        except (QuireError, OSError) as error:  # a TimeoutError is an OSError
            _log.info("no heartbeat at %s: %s", self._path, error or "no answer in time")

    async def _beat(self) -> None:
        value = (await self._account()).encode()
        try:
            version = (await self._store.get(self._path)).version
        except NoSuchNodeError:
            await self._store.create(self._path, value)
        else:
            await self._store.put(self._path, value, version)
