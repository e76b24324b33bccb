"""The roster follows registrations and keeps links apart from them."""

from __future__ import annotations

import asyncio

import pytest

from quire.bookie import BookieAddress
from quire.errors import BookieUnavailableError, HandleClosedError, StoreUnavailableError
from quire.labels import NOWHERE, Labels
from quire.ledger.domains import Candidate
from quire.ledger.roster import BookieRoster
from quire.metastore.layout import BOOKIES, bookie_path
from quire.metastore.memory import MemoryStore
from quire.metastore.registration import encode_registration
from quire.testing.bookie import MemoryBookie
from tests.support.memory_cluster import MemoryCluster, until


class Link(MemoryBookie):
    def __init__(self, address: BookieAddress) -> None:
        super().__init__(address.bookie)
        self.address = address.address
        self.closed = asyncio.Event()

    async def close(self) -> None:
        self.closed.set()


def registration(bookie: str, address: str, *, writable: bool = True) -> bytes:
    return encode_registration(BookieAddress(bookie, address, writable))


def test_starts_with_what_is_registered() -> None:
    async def main() -> None:
        async with MemoryCluster(3) as cluster:
            assert cluster.roster.writable() == ["b0", "b1", "b2"]
            assert [each.address for each in cluster.roster.known()] == ["b0:1", "b1:1", "b2:1"]
            assert cluster.roster.bookie("b1") is cluster.bookies["b1"]

    asyncio.run(main())


def test_follows_bookies_that_come_and_go() -> None:
    async def main() -> None:
        async with MemoryCluster(1) as cluster:
            await cluster.register("b7")
            await until(lambda: cluster.roster.writable() == ["b0", "b7"])
            await cluster.unregister("b0")
            await until(lambda: cluster.roster.writable() == ["b7"])
            await cluster.register("b0")
            await until(lambda: cluster.roster.writable() == ["b0", "b7"])

    asyncio.run(main())


def test_a_bookie_that_turns_read_only_takes_no_new_ledgers() -> None:
    async def main() -> None:
        async with MemoryCluster(2) as cluster:
            record = await cluster.store.get(bookie_path("b0"))
            read_only = registration("b0", "b0:1", writable=False)
            await cluster.store.put(bookie_path("b0"), read_only, record.version)
            await until(lambda: cluster.roster.writable() == ["b1"])
            assert [each.bookie for each in cluster.roster.known()] == ["b0", "b1"]

    asyncio.run(main())


def test_an_unregistered_bookie_can_still_be_reached() -> None:
    async def main() -> None:
        async with MemoryCluster(1) as cluster:
            await cluster.unregister("b0")
            await until(lambda: cluster.roster.writable() == [])
            assert cluster.roster.bookie("b0") is cluster.bookies["b0"]
            with pytest.raises(BookieUnavailableError, match="not registered"):
                cluster.roster.bookie("stranger")

    asyncio.run(main())


@pytest.mark.parametrize(
    "new",
    [BookieAddress("b0", "new:1"), BookieAddress("b0", "old:1", runs="new:2", says_hello=True)],
)
def test_a_bookie_that_moves_gets_a_new_link_and_the_old_one_is_closed(
    new: BookieAddress,
) -> None:
    async def main() -> None:
        store = MemoryStore()
        version = await store.create(bookie_path("b0"), registration("b0", "old:1"))
        links: list[Link] = []

        def connect(address: BookieAddress) -> Link:
            links.append(Link(address))
            return links[-1]

        roster = BookieRoster(store, connect)
        await roster.start()
        assert roster.bookie("b0") is roster.bookie("b0") is links[0]
        await store.put(bookie_path("b0"), encode_registration(new), version)
        await until(lambda: roster.known() == [new])
        assert roster.bookie("b0") is links[1]
        await links[0].closed.wait()
        await roster.close()
        assert links[1].closed.is_set()
        with pytest.raises(HandleClosedError):
            roster.bookie("b0")
        await store.close()

    asyncio.run(main())


def test_a_damaged_registration_is_nobody() -> None:
    async def main() -> None:
        async with MemoryCluster(1) as cluster:
            version = await cluster.store.create(bookie_path("b9"), b"junk")
            await cluster.roster.refresh()
            assert cluster.roster.writable() == ["b0"]
            await cluster.store.put(bookie_path("b9"), registration("b9", "b9:1"), version)
            await until(lambda: cluster.roster.writable() == ["b0", "b9"])

    asyncio.run(main())


def test_refresh_sees_at_once_what_the_watches_may_show_later() -> None:
    async def main() -> None:
        async with MemoryCluster(1) as cluster:
            await cluster.register("b1")
            await cluster.unregister("b0")
            await cluster.roster.refresh()
            assert cluster.roster.writable() == ["b1"]

    asyncio.run(main())


class FlakyStore(MemoryStore):
    failures = 0

    async def wait_children(self, path: str, names: list[str]) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailableError(self.uri, "by order of the test")
        await super().wait_children(path, names)


def test_an_unreachable_store_is_followed_again() -> None:
    async def main() -> None:
        store = FlakyStore()
        store.failures = 1
        roster = BookieRoster(store, Link)
        await roster.start()
        await store.create(f"{BOOKIES}/b0", registration("b0", "b0:1"))
        await until(lambda: roster.writable() == ["b0"])
        await roster.close()
        await store.close()

    asyncio.run(main())


class StallingStore(MemoryStore):
    """Stops once, after the children of a path were read, until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.stalls = False
        self.stalled = asyncio.Event()
        self.go_on = asyncio.Event()

    async def children(self, path: str) -> list[str]:
        names = await super().children(path)
        if self.stalls:
            self.stalls = False
            self.stalled.set()
            await self.go_on.wait()
        return names


def test_a_bookie_that_registers_during_a_refresh_is_kept() -> None:
    async def main() -> None:
        store = StallingStore()
        roster = BookieRoster(store, Link)
        await roster.start()
        await store.create(f"{BOOKIES}/a0", registration("a0", "a0:1"))
        await until(lambda: roster.writable() == ["a0"])
        store.stalls = True
        refresh = asyncio.create_task(roster.refresh())
        await store.stalled.wait()
        await store.create(f"{BOOKIES}/b0", registration("b0", "b0:1"))
        await until(lambda: roster.writable() == ["a0", "b0"])
        store.go_on.set()
        await refresh
        assert roster.writable() == ["a0", "b0"]
        await roster.close()
        await store.close()

    asyncio.run(main())


def test_a_candidate_has_the_place_of_its_registration() -> None:
    async def main() -> None:
        async with MemoryCluster(1) as cluster:
            place = Labels(rack="r1")
            for name, writable in (("b1", True), ("b2", False)):
                address = BookieAddress(name, "h:1", writable, labels=place, room=64)
                await cluster.session.create(bookie_path(name), encode_registration(address))
            await until(lambda: len(cluster.roster.known()) == 3)
            candidates = cluster.roster.candidates()
            assert candidates == [Candidate("b0"), Candidate("b1", place, 64)]
            await cluster.unregister("b2")
            await until(lambda: len(cluster.roster.known()) == 2)
            assert cluster.roster.labels("b2") == place, "where it was, it still is"
            assert cluster.roster.labels("b9") == NOWHERE
            assert cluster.roster.places() == [NOWHERE, place, place]

    asyncio.run(main())
