"""A heart beats on, whatever a beat meets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from quire.errors import NoSuchNodeError
from quire.metastore.heartbeat import Heartbeat
from quire.metastore.layout import heartbeat_path
from quire.metastore.memory import MemoryStore
from quire.storage.identity.heart import ANSWER_SECONDS, BEAT_SECONDS, Heart
from tests.golden.metadata import HEARTBEAT
from tests.support.virtual import virtually

PATH = heartbeat_path("b1")


class Scene:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.count = 0
        self.trouble: Exception | None = None
        self.hangs = False
        self.heart = Heart(self.store, "b1", self.account, random.Random(1))

    async def account(self) -> Heartbeat:
        if self.hangs:
            await asyncio.Event().wait()
        if self.trouble is not None:
            raise self.trouble
        self.count += 1
        return replace(HEARTBEAT, ledgers=self.count)

    async def beats(self) -> int:
        """The number of the beat in the store."""
        try:
            return Heartbeat.decode("b1", (await self.store.get(PATH)).value).ledgers
        except NoSuchNodeError:
            return 0


@asynccontextmanager
async def beating(scene: Scene) -> AsyncIterator[None]:
    await scene.heart.start()
    try:
        yield
    finally:
        await scene.heart.close()


def test_it_beats_at_once_and_again_and_the_last_beat_stays() -> None:
    async def main() -> None:
        scene = Scene()
        async with beating(scene):
            assert await scene.beats() == 1
            await asyncio.sleep(BEAT_SECONDS)
            assert await scene.beats() == 2
            scene.heart.hurry()
            await asyncio.sleep(0.001)
            assert await scene.beats() == 3
        await asyncio.sleep(10 * BEAT_SECONDS)
        assert await scene.beats() == 3

    virtually(main)


def test_a_beat_that_fails_or_hangs_is_dropped() -> None:
    async def main() -> None:
        scene = Scene()
        scene.trouble = OSError("by order of the test")
        async with beating(scene):
            assert await scene.beats() == 0
            scene.trouble, scene.hangs = None, True
            await asyncio.sleep(BEAT_SECONDS)
            assert await scene.beats() == 0
            scene.hangs = False
            await asyncio.sleep(ANSWER_SECONDS + BEAT_SECONDS)
            assert await scene.beats() == 1

    virtually(main)
