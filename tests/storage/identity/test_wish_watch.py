"""A bookie learns its operator's wish, and no clock or outage makes an away longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from quire.errors import StoreUnavailableError
from quire.metastore.layout import standing_path
from quire.metastore.memory import MemoryStore
from quire.metastore.record import encode_record
from quire.metastore.standing import SERVING, Standing, Wish
from quire.metastore.store import Versioned
from quire.storage.identity.wish_watch import LOOK_SECONDS, WishWatch
from tests.support.virtual import virtually

PATH = standing_path("b1")
BEGIN = 1_700_000_000.0
DRAIN = Standing(Wish.DRAIN, "old disk", "anna@desk", 0)


def away(seconds: float) -> Standing:
    begin = round(BEGIN * 1000)
    return Standing(Wish.AWAY, since_ms=begin, until_ms=begin + round(seconds * 1000))


class FailingStore(MemoryStore):
    """A store that can be out of reach, and whose watches may stay silent."""

    is_away = False
    is_silent = False

    async def get(self, path: str) -> Versioned:
        if self.is_away:
            raise StoreUnavailableError(self.uri, "by order of the test")
        return await super().get(path)

    async def wait(self, path: str, version: int | None) -> None:
        if self.is_away:
            raise StoreUnavailableError(self.uri, "by order of the test")
        if self.is_silent:
            await asyncio.Event().wait()
        await super().wait(path, version)


class Scene:
    def __init__(self, off: float) -> None:
        self.store = FailingStore()
        self.wish = Wish.SERVE
        self.off = off
        self.watch = WishWatch(self.store, "b1", self.obey, self.clock)

    def clock(self) -> float:
        return BEGIN + asyncio.get_running_loop().time() + self.off

    def obey(self, wish: Wish) -> None:
        self.wish = wish

    def obeys(self, wish: Wish) -> bool:
        return self.wish is wish

    async def put(self, standing: Standing | bytes) -> None:
        value = standing if isinstance(standing, bytes) else standing.encode()
        if (version := self.store.tree.version(PATH)) is None:
            await self.store.create(PATH, value)
        else:
            await self.store.put(PATH, value, version)
        await asyncio.sleep(0.001)


@asynccontextmanager
async def following(first: Standing | None = None, off: float = 0.0) -> AsyncIterator[Scene]:
    scene = Scene(off)
    if first is not None:
        await scene.put(first)
    await scene.watch.look()
    scene.watch.start()
    try:
        yield scene
    finally:
        await scene.watch.close()
        await scene.store.close()


def test_a_wish_is_obeyed_and_taken_back() -> None:
    async def main() -> None:
        async with following() as scene:
            assert scene.obeys(Wish.SERVE)
            await scene.put(DRAIN)
            assert scene.obeys(Wish.DRAIN)
            await scene.put(SERVING)
            assert scene.obeys(Wish.SERVE)
            await scene.put(DRAIN)
            await scene.store.delete(PATH)
            await asyncio.sleep(0.001)
            assert scene.obeys(Wish.SERVE)

    virtually(main)


def test_the_wish_is_known_before_the_bookie_serves() -> None:
    async def main() -> None:
        scene = Scene(0.0)
        await scene.put(DRAIN)
        await scene.watch.look()
        assert scene.obeys(Wish.DRAIN)
        await scene.watch.close()

    virtually(main)


def test_an_away_ends_by_itself() -> None:
    async def main() -> None:
        async with following(away(60)) as scene:
            await asyncio.sleep(59.9)
            assert scene.obeys(Wish.AWAY)
            await asyncio.sleep(0.2)
            assert scene.obeys(Wish.SERVE)

    virtually(main)


def test_an_away_ends_although_the_store_is_out_of_reach() -> None:
    async def main() -> None:
        async with following(away(60)) as scene:
            scene.store.is_away = True
            await asyncio.sleep(50)
            assert scene.obeys(Wish.AWAY)
            await asyncio.sleep(10 + 5.1)  # and the pause between two attempts
            assert scene.obeys(Wish.SERVE)

    virtually(main)


@pytest.mark.parametrize(("off", "seconds"), [(-1e8, 60), (1e8, 0), (-30, 60), (20, 40)])
def test_a_wrong_clock_makes_an_away_never_longer(off: float, seconds: float) -> None:
    async def main() -> None:
        async with following(away(60), off) as scene:
            if seconds:
                await asyncio.sleep(seconds - 0.1)
                assert scene.obeys(Wish.AWAY)
            await asyncio.sleep(0.2)
            assert scene.obeys(Wish.SERVE)

    virtually(main)


def test_an_away_that_is_prolonged_holds() -> None:
    async def main() -> None:
        async with following(away(60)) as scene:
            await asyncio.sleep(50)
            await scene.put(away(300))
            await asyncio.sleep(200)
            assert scene.obeys(Wish.AWAY)

    virtually(main)


def test_a_record_of_a_later_program_changes_nothing() -> None:
    async def main() -> None:
        async with following(DRAIN) as scene:
            body = {"wish": "dance", "reason": "", "by": "", "since_ms": 0}
            await scene.put(encode_record("standing", 1, body))
            assert scene.obeys(Wish.DRAIN)
            await scene.put(SERVING)
            assert scene.obeys(Wish.SERVE)

    virtually(main)


def test_a_watch_that_stays_silent_delays_a_wish_and_loses_none() -> None:
    async def main() -> None:
        async with following() as scene:
            scene.store.is_silent = True
            await asyncio.sleep(LOOK_SECONDS)
            await scene.put(DRAIN)
            await asyncio.sleep(LOOK_SECONDS)
            assert scene.obeys(Wish.DRAIN)

    virtually(main)


def test_a_start_without_the_store_is_an_error() -> None:
    async def main() -> None:
        scene = Scene(0.0)
        scene.store.is_away = True
        with pytest.raises(StoreUnavailableError):
            await scene.watch.look()

    virtually(main)
