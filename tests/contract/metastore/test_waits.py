"""Waits: no change is missed, and each waiter is on its own."""

from __future__ import annotations

import asyncio

import pytest

from quire.metastore.store import MetadataStore
from tests.contract.metastore.two_clients import Run, wakes
from tests.support.store_backends import Backend


@pytest.mark.parametrize("local", [True, False])
def test_a_wait_ends_with_a_change(run: Run, local: bool) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        writer = one if local else other
        await wakes(one.wait("/a", None), one, lambda: writer.create("/a", b""))
        first = (await one.get("/a")).version
        await wakes(one.wait("/a", first), one, lambda: writer.put("/a", b"", first))
        second = (await one.get("/a")).version
        await wakes(one.wait("/a", second), one, lambda: writer.delete("/a"))
        await wakes(one.wait("/a", None), one, lambda: writer.create("/a", b""))

    run(scenario)


def test_no_change_is_lost_between_a_read_and_a_wait(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        version = await one.create("/a", b"")
        await other.put("/a", b"", version)
        await one.wait("/a", version)
        await one.wait("/a", None)
        await other.delete("/a")
        await one.wait("/a", version)
        await other.create("/b/c", b"")
        await one.wait_children("/b", [])
        await one.wait_children("/b", ["c", "d"])

    run(scenario)


def test_a_waiter_follows_every_last_state_of_a_busy_record(run: Run) -> None:
    changes = 20

    async def follow(store: MetadataStore) -> bytes:
        version = None
        while True:
            await store.wait("/a", version)
            found = await store.get("/a")
            if found.value == b"%d" % changes:
                return found.value
            version = found.version

    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        followers = [asyncio.ensure_future(follow(store)) for store in (one, other, one)]
        version = await one.create("/a", b"0")
        for n in range(1, changes + 1):
            version = await one.put("/a", b"%d" % n, version)
        assert await asyncio.gather(*followers) == [b"%d" % changes] * 3

    run(scenario)


def test_deleting_and_creating_again_wakes(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        version = await one.create("/a", b"")

        async def again() -> None:
            await other.delete("/a")
            await other.create("/a", b"")

        await wakes(one.wait("/a", version), one, again)

    run(scenario)


@pytest.mark.parametrize("local", [True, False])
def test_a_wait_for_children_ends_when_names_come_and_go(run: Run, local: bool) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        writer = one if local else other
        await wakes(one.wait_children("/d", []), one, lambda: writer.create("/d/x", b""))
        names = await one.children("/d")
        await wakes(one.wait_children("/d", names), one, lambda: writer.create("/d/y", b""))
        names = await one.children("/d")
        await wakes(one.wait_children("/d", names), one, lambda: writer.delete("/d/x"))

    run(scenario)


def test_a_cancelled_wait_leaves_the_others_waiting(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        version = await one.create("/a", b"")
        cancelled = asyncio.ensure_future(one.wait("/a", version))
        kept = asyncio.ensure_future(one.wait("/a", version))
        await one.get("/a")
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        assert cancelled.cancelled()
        await wakes(kept, one, lambda: other.put("/a", b"", version))

    run(scenario)
