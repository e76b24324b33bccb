"""Finishing an upgrade, beside bookies and clients that come at any moment."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import cast
from unittest.mock import patch

import pytest

from quire.bookie import Bookie, BookieAddress, BookieInfo
from quire.errors import FormatLevelError, NoSuchNodeError, UpgradeRefusedError
from quire.metadata.upgrade import finish_upgrade, upgrade_status
from quire.metastore import cluster, levels, members
from quire.metastore.cluster import Cluster, read_cluster
from quire.metastore.layout import BOOKIES, CLIENTS, CLUSTER
from quire.metastore.levels import OLDER_PROGRAM, SPEAKS, THIS_PROGRAM, Speaks
from quire.metastore.members import decode_client, encode_client, registered
from quire.metastore.memory import MemorySession, MemoryStore
from quire.metastore.record import encode_record
from quire.metastore.registration import encode_registration
from quire.storage.identity import registration
from quire.storage.identity.registration import Registration
from tests.support.virtual import virtually

OLD = encode_record("bookie", 1, {"address": "host:1", "writable": True})
NEW = encode_registration(BookieAddress("b2", "host:2"))


async def a_cluster(level: int = 1, **bookies: bytes) -> MemoryStore:
    store = MemoryStore()
    await store.create(CLUSTER, Cluster("c", level=level).encode())
    for bookie, record in bookies.items():
        await store.create(f"{BOOKIES}/{bookie}", record)
    return store


def test_a_bookie_of_an_older_program_is_named_and_stops_the_upgrade() -> None:
    async def main() -> None:
        store = await a_cluster(b1=OLD, b2=NEW)
        found = await upgrade_status(store)
        assert [each.name for each in found.obstacles] == ["b1"]
        with pytest.raises(UpgradeRefusedError, match="bookie b1 at host:1"):
            await finish_upgrade(store)
        assert await read_cluster(store) == Cluster("c"), "and others may join again"
        await store.delete(f"{BOOKIES}/b1")
        assert (await finish_upgrade(store)).is_finished
        assert (await read_cluster(store)).level == SPEAKS.highest
        assert not (await read_cluster(store)).raising
        version = (await store.get(CLUSTER)).version
        await finish_upgrade(store)
        assert (await store.get(CLUSTER)).version == version, "a second time nothing is written"

    virtually(main)


def test_a_client_registers_and_stops_the_upgrade_until_it_leaves() -> None:
    async def main() -> None:
        store = await a_cluster()
        older = encode_client("there", OLDER_PROGRAM)
        with patch.object(members, "encode_client", lambda where: older):
            async with registered(store, "c1", "here, process 1"):
                await asyncio.sleep(members.REGISTER_SECONDS + 1)
                with pytest.raises(UpgradeRefusedError, match="client c1 at there"):
                    await finish_upgrade(store)
        assert await store.children(CLIENTS) == []
        assert (await finish_upgrade(store)).level == SPEAKS.highest

    virtually(main)


def test_a_client_that_is_over_in_a_moment_writes_nothing() -> None:
    async def main() -> None:
        store = await a_cluster()
        async with registered(store, "c1", "here"):
            await asyncio.sleep(members.REGISTER_SECONDS / 2)
            assert await store.children(CLIENTS) == []

    virtually(main)


def test_a_client_comes_back_after_its_session_expired() -> None:
    async def main() -> None:
        store = await a_cluster()
        async with registered(store, "c1", "here"):
            await asyncio.sleep(members.REGISTER_SECONDS + 1)
            record = await store.get(f"{CLIENTS}/c1")
            assert decode_client("c1", record.value).program == THIS_PROGRAM
            store.tree.end_sessions()
            assert await store.children(CLIENTS) == []
            await asyncio.sleep(members.REGISTER_SECONDS + 1)
            assert await store.children(CLIENTS) == ["c1"]

    virtually(main)


def test_a_client_leaves_a_store_that_does_not_answer() -> None:
    async def main() -> None:
        store = await a_cluster()
        closing = asyncio.Event()

        async def hang(_: object) -> None:
            closing.set()
            await asyncio.Event().wait()

        with patch.object(MemorySession, "close", hang):
            async with registered(store, "c1", "here"):
                await asyncio.sleep(members.REGISTER_SECONDS + 1)
                left = asyncio.get_running_loop().time()
        assert closing.is_set()
        assert asyncio.get_running_loop().time() - left <= members.CLOSE_SECONDS

    virtually(main)


def test_an_unreadable_registration_stops_the_upgrade() -> None:
    async def main() -> None:
        store = await a_cluster(b1=b"junk")
        await store.create(f"{CLIENTS}/c1", encode_record("client", 1, {"where": 3}))
        with pytest.raises(UpgradeRefusedError, match=r"bookie b1 .* client c1 .* cannot be read"):
            await finish_upgrade(store)

    virtually(main)


def test_a_store_without_a_cluster_is_an_error() -> None:
    async def main() -> None:
        with pytest.raises(NoSuchNodeError):
            await finish_upgrade(MemoryStore())

    virtually(main)


def test_a_program_that_does_not_speak_the_level_reads_no_cluster() -> None:
    async def main() -> None:
        store = await a_cluster(SPEAKS.highest + 1)
        with pytest.raises(FormatLevelError, match="upgrade quire here"):
            await read_cluster(store)

    virtually(main)


class _Bookie:
    async def info(self) -> BookieInfo:
        return BookieInfo("b1", True, 1, 1, 0)


async def race(seed: int) -> str:
    """Let a bookie that speaks less register while an operator finishes; return what came of it."""
    rng = random.Random(seed)
    store = _Lagging(rng)
    await store.inner.create(CLUSTER, Cluster("c").encode())
    ready = asyncio.Event()
    address = BookieAddress("b1", "host:1")
    bookie = Registration(store, cast("Bookie", _Bookie()), address, rng)
    serving = asyncio.create_task(bookie.keep(lambda _: ready.set()))
    try:
        await finish_upgrade(store)
        outcome = "raised"
    except UpgradeRefusedError:
        outcome = "refused"
    await asyncio.wait([serving], timeout=60)
    is_serving = not serving.done()
    serving.cancel()
    found = await asyncio.gather(serving, return_exceptions=True)
    assert is_serving == ready.is_set()
    assert is_serving or isinstance(found[0], FormatLevelError)
    level = Cluster.decode((await store.inner.get(CLUSTER)).value).level
    assert not (is_serving and level > 1), "it serves at a level that it does not speak"
    return f"{outcome}, {'serves' if is_serving else 'ended'}"


def test_a_bookie_that_speaks_less_never_serves_at_the_raised_level() -> None:
    """The bookie registers and the operator finishes, in any interleaving of their calls."""
    older = patch.object(cluster, "check_level", partial(levels.check_level, speaks=Speaks(1, 1)))
    lesser = patch.object(
        registration,
        "encode_registration",
        lambda address, *_: encode_registration(address, program=OLDER_PROGRAM),
    )
    with older, lesser:
        outcomes = {virtually(partial(race, seed)) for seed in range(200)}
    assert outcomes == {"raised, ended", "refused, serves", "refused, ended"}


class _Lagging(MemoryStore):
    """A store with calls that take a random time."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.inner = MemoryStore(self.tree)
        self._lag = rng

    async def get(self, path: str):  # type: ignore[no-untyped-def]
        await asyncio.sleep(self._lag.random())
        return await self.inner.get(path)

    async def children(self, path: str) -> list[str]:
        await asyncio.sleep(self._lag.random())
        return await self.inner.children(path)

    async def put(self, path: str, value: bytes, version: int) -> int:
        await asyncio.sleep(self._lag.random())
        return await self.inner.put(path, value, version)

    async def open_session(self, timeout: float):  # type: ignore[no-untyped-def]
        await asyncio.sleep(self._lag.random() * 2)
        return await self.inner.open_session(timeout)
