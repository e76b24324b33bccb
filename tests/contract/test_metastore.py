"""The law of the metadata store, held against every implementation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from quire.errors import (
    ConflictError,
    HandleClosedError,
    InvalidRequestError,
    NodeExistsError,
    NoSuchNodeError,
    SessionExpiredError,
    VersionConflictError,
)
from quire.metastore.changes import Change, Create, Delete, Put
from quire.metastore.layout import VALUE_BYTES_MAX
from quire.metastore.store import MetadataStore
from tests.support.store_backends import BACKENDS, Backend

Scenario: TypeAlias = Callable[[MetadataStore, MetadataStore, Backend], Awaitable[None]]
Run: TypeAlias = Callable[[Scenario], None]

DEADLINE_SECONDS = 30.0
SESSION_SECONDS = 5.0


@pytest.fixture(params=sorted(BACKENDS))
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Run a scenario with two clients of one fresh tree."""

    async def body(scenario: Scenario) -> None:
        backend = BACKENDS[request.param](tmp_path)
        async with asyncio.timeout(DEADLINE_SECONDS):
            one, other = await backend.client(), await backend.client()
            try:
                await scenario(one, other, backend)
            finally:
                await other.close()
                await one.close()

    return lambda scenario: asyncio.run(body(scenario))


def test_what_was_created_is_read_by_everybody(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        version = await one.create("/a", b"value")
        found = await other.get("/a")
        assert (found.value, found.version) == (b"value", version)

    run(scenario)


def test_creating_what_exists_is_refused(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        await one.create("/a", b"first")
        with pytest.raises(NodeExistsError, match="/a"):
            await other.create("/a", b"second")
        assert (await one.get("/a")).value == b"first"

    run(scenario)


def test_what_does_not_exist_is_named(run: Run) -> None:
    async def scenario(one: MetadataStore, _: MetadataStore, __: Backend) -> None:
        for call in (one.get("/a/b"), one.put("/a/b", b"", 0), one.delete("/a/b")):
            with pytest.raises(NoSuchNodeError, match="/a/b"):
                await call

    run(scenario)


def test_parents_are_made_and_may_hold_a_value(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        await one.create("/a/b/c", b"leaf")
        parent = await other.get("/a/b")
        assert parent.value == b""
        await other.put("/a/b", b"kept", parent.version)
        assert (await one.get("/a/b")).value == b"kept"
        assert (await one.get("/a/b/c")).value == b"leaf"
        with pytest.raises(NodeExistsError):
            await one.create("/a", b"")

    run(scenario)


def test_every_change_gives_a_greater_version(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        versions = [await one.create("/a", b"0")]
        for n in range(1, 5):
            versions.append(await (one, other)[n % 2].put("/a", b"%d" % n, versions[-1]))
            assert (await one.get("/a")).version == versions[-1]
        assert versions == sorted(set(versions))

    run(scenario)


def test_only_the_current_version_can_be_replaced_or_deleted(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        old = await one.create("/a", b"old")
        new = await other.put("/a", b"new", old)
        for wrong in (old, new + 1, -1, 0):
            with pytest.raises(VersionConflictError, match="/a"):
                await one.put("/a", b"lost", wrong)
            with pytest.raises(VersionConflictError, match="/a"):
                await one.delete("/a", wrong)
        assert (await one.get("/a")).value == b"new"
        await one.delete("/a", new)
        with pytest.raises(NoSuchNodeError):
            await other.get("/a")

    run(scenario)


def test_a_version_of_an_earlier_life_is_a_conflict(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        earlier = await one.create("/a", b"first life")
        await other.delete("/a")
        await other.create("/a", b"second life")
        with pytest.raises(VersionConflictError):
            await one.put("/a", b"meant for the first", earlier)
        await asyncio.gather(one.wait("/a", earlier), other.wait("/a", earlier))

    run(scenario)


def test_concurrent_increments_are_all_counted(run: Run) -> None:
    tasks, increments = 4, 5

    async def increment(store: MetadataStore) -> int:
        conflicts = 0
        while True:
            found = await store.get("/counter")
            try:
                await store.put("/counter", b"%d" % (int(found.value) + 1), found.version)
            except VersionConflictError:
                conflicts += 1
            else:
                return conflicts

    async def worker(store: MetadataStore) -> int:
        return sum([await increment(store) for _ in range(increments)])

    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        await one.create("/counter", b"0")
        conflicts = await asyncio.gather(*(worker((one, other)[n % 2]) for n in range(tasks)))
        assert (await one.get("/counter")).value == b"%d" % (tasks * increments)
        assert sum(conflicts) > 0

    run(scenario)


def test_children_are_sorted_names_and_none_where_there_is_no_record(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        assert await one.children("/a") == []
        for name in ("b", "a", "c", "a.d", "~"):
            await one.create(f"/a/{name}", b"")
        await one.create("/a/b/deeper", b"")
        await one.create("/ab", b"")
        assert await other.children("/a") == ["a", "a.d", "b", "c", "~"]
        assert await other.children("/a/b/deeper") == []
        assert {"a", "ab"} <= set(await other.children("/"))

    run(scenario)


def test_a_record_with_children_is_not_deleted(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        await one.create("/a/b", b"")
        with pytest.raises(ConflictError, match="/a"):
            await other.delete("/a")
        await other.delete("/a/b")
        await other.delete("/a")
        assert await one.children("/a") == []

    run(scenario)


@pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a/../b", "/ä", "/a b"])
def test_unusable_paths_are_refused_by_every_call(run: Run, path: str) -> None:
    async def scenario(one: MetadataStore, _: MetadataStore, __: Backend) -> None:
        session = await one.open_session(SESSION_SECONDS)
        calls = (
            one.get(path),
            one.create(path, b""),
            one.put(path, b"", 0),
            one.delete(path),
            one.children(path),
            one.wait(path, None),
            one.wait_children(path, []),
            session.create(path, b""),
        )
        for call in calls:
            with pytest.raises(InvalidRequestError):
                await call

    run(scenario)


def test_the_largest_value_is_kept_and_a_larger_one_refused(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        largest = bytes(range(250)) * (VALUE_BYTES_MAX // 250)
        version = await one.create("/a", largest)
        assert (await other.get("/a")).value == largest
        with pytest.raises(InvalidRequestError, match="/a"):
            await one.put("/a", largest + b"x", version)
        with pytest.raises(InvalidRequestError, match="/b"):
            await one.create("/b", largest + b"x")

    run(scenario)


def test_a_transaction_makes_all_of_its_changes(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        old = await one.create("/a", b"old")
        await one.create("/gone/leaf", b"")
        changes = (
            Create("/new/deep/b", b"b"),
            Create("/new/deep/b/below", b"c"),
            Put("/a", b"new", old),
            Delete("/gone/leaf"),
            Delete("/gone", (await one.get("/gone")).version),
        )
        versions = await one.commit(changes)
        assert sorted(versions) == ["/a", "/new/deep/b", "/new/deep/b/below"]
        for path, version in versions.items():
            assert (await other.get(path)).version == version
        assert (await other.get("/a")).value == b"new"
        assert await other.children("/") == ["a", "new"]
        # The versions are good for compare-and-set, and greater than those before.
        assert versions["/a"] > old
        await other.put("/new/deep/b", b"again", versions["/new/deep/b"])
        await one.wait("/a", old)

    run(scenario)


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (Create("/there", b""), NodeExistsError),
        (Put("/not/there", b"", 1), NoSuchNodeError),
        (Put("/there", b"", -7), VersionConflictError),
        (Delete("/not/there"), NoSuchNodeError),
        (Delete("/there", -7), VersionConflictError),
        (Delete("/parent"), ConflictError),
        (Create("/live/x", b""), InvalidRequestError),
    ],
    ids=lambda value: type(value).__name__ + getattr(value, "path", ""),
)
@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_transaction_that_is_refused_changes_nothing_and_says_why(
    run: Run, refused: Change, error: type[Exception], place: int
) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        await one.create("/there", b"kept")
        await one.create("/parent/child", b"")
        kept = await one.create("/put", b"kept")
        session = await one.open_session(SESSION_SECONDS)
        await session.create("/live", b"")
        changes: list[Change] = [Create("/new", b""), Put("/put", b"lost", kept)]
        changes.append(Delete("/parent/child"))
        if refused == Delete("/parent"):
            changes[2] = Create("/parent/other", b"")
        changes.insert(place, refused)
        with pytest.raises(error, match=refused.path.removesuffix("/x")):
            await one.commit(changes)
        assert await other.children("/") == ["live", "parent", "put", "there"]
        assert await other.children("/parent") == ["child"]
        assert (await other.get("/put")).version == kept
        assert (await other.get("/there")).value == b"kept"

    run(scenario)


def test_a_version_of_an_earlier_life_is_a_conflict_in_a_transaction(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        earlier = await one.create("/a", b"first life")
        await other.delete("/a")
        await other.create("/a", b"second life")
        with pytest.raises(VersionConflictError, match="/a"):
            await one.commit([Create("/b", b""), Put("/a", b"", earlier)])
        assert await other.children("/") == ["a"]

    run(scenario)


def test_of_transactions_that_exclude_each_other_one_is_made(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        version = await one.create("/a", b"")
        rivals = [
            (one, other)[n % 2].commit([Create(f"/won/{n}", b""), Put("/a", b"%d" % n, version)])
            for n in range(6)
        ]
        outcomes = await asyncio.gather(*rivals, return_exceptions=True)
        winners = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, dict)]
        losers = [each for each in outcomes if isinstance(each, VersionConflictError)]
        assert (len(winners), len(losers)) == (1, 5)
        assert await one.children("/won") == [f"{winners[0]}"]
        assert (await one.get("/a")).value == b"%d" % winners[0]

    run(scenario)


def test_a_transaction_that_no_store_could_carry_is_refused_at_once(run: Run) -> None:
    half = bytes(VALUE_BYTES_MAX // 2)

    async def scenario(one: MetadataStore, _: MetadataStore, __: Backend) -> None:
        await one.create("/a", b"")
        refused: list[list[Change]] = [
            [],
            [Create("/b", b""), Delete("/b")],
            [Create("/b", b""), Delete("/a/")],
            [Create("/b", half), Create("/c", half)],
            [Create("/b", half * 2 + b"x")],
        ]
        for changes in refused:
            with pytest.raises(InvalidRequestError):
                await one.commit(changes)
        assert await one.children("/") == ["a"]
        await one.commit([Create("/b", half * 2)])
        await one.commit([Create(f"/many/{n}", b"") for n in range(500)])
        assert len(await one.children("/many")) == 500

    run(scenario)


async def wakes(
    waiting: Awaitable[None], store: MetadataStore, change: Callable[[], Awaitable[object]]
) -> None:
    """Check that a wait waits, and that a change ends it."""
    task = asyncio.ensure_future(waiting)
    for _ in range(3):
        await store.children("/")
        await asyncio.sleep(0.01)
    assert not task.done()
    await change()
    await task


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


def test_what_a_session_created_goes_when_it_is_closed(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        session = await one.open_session(SESSION_SECONDS)
        version = await session.create("/live/x", b"here")
        await session.create("/live/y", b"")
        assert (await other.get("/live/x")).version == version
        with pytest.raises(NodeExistsError):
            await session.create("/live/x", b"")
        names = await other.children("/live")
        assert names == ["x", "y"]
        await wakes(other.wait_children("/live", names), other, session.close)
        await other.wait_children("/live", ["x"])
        assert await other.children("/live") == []
        assert session.expired
        await session.wait_expired()
        await session.close()

    run(scenario)


def test_an_ephemeral_record_has_nothing_below_it(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        session = await one.open_session(SESSION_SECONDS)
        await session.create("/live", b"")
        with pytest.raises(InvalidRequestError, match="/live"):
            await other.create("/live/x", b"")

    run(scenario)


def test_an_ephemeral_record_can_be_changed_and_deleted_by_anybody(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        session = await one.open_session(SESSION_SECONDS)
        version = await session.create("/live", b"")
        assert await other.put("/live", b"changed", version) > version
        await other.delete("/live")
        await session.close()

    run(scenario)


def test_a_session_that_expires_wakes_its_owner_and_loses_its_records(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, backend: Backend) -> None:
        session = await one.open_session(1.0)
        await session.create("/live/x", b"")
        await wakes(session.wait_expired(), one, lambda: backend.expire(session))
        assert session.expired
        await other.wait_children("/live", ["x"])
        assert await other.children("/live") == []
        with pytest.raises(SessionExpiredError):
            await session.create("/live/x", b"")
        with pytest.raises(SessionExpiredError):
            await session.create_sequential("/live/x-", b"")
        assert await other.children("/live") == []

    run(scenario)


def test_a_session_outlives_its_timeout_while_its_owner_does(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        session = await one.open_session(2.0)
        await session.create("/live", b"")
        await asyncio.sleep(3.5)
        assert not session.expired
        await other.get("/live")

    run(scenario)


def test_sequential_records_queue_in_the_order_of_the_calls(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        sessions = [await store.open_session(SESSION_SECONDS) for store in (one, other)]
        paths = [await sessions[n % 2].create_sequential("/q/c-", b"%d" % n) for n in range(12)]
        assert paths == sorted(set(paths))
        assert all(len(path) == len("/q/c-") + 10 for path in paths)
        assert all(path.removeprefix("/q/c-").isdigit() for path in paths)
        assert [(await one.get(path)).value for path in paths] == [b"%d" % n for n in range(12)]
        await other.delete(paths[-1])
        later = await sessions[0].create_sequential("/q/other-", b"")
        assert later.removeprefix("/q/other-") > paths[-1].removeprefix("/q/c-")

    run(scenario)


def test_sequential_records_made_at_once_have_each_its_own_number(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        sessions = [await store.open_session(SESSION_SECONDS) for store in (one, other)]
        calls = [sessions[n % 2].create_sequential("/q/c-", b"") for n in range(10)]
        paths = await asyncio.gather(*calls)
        assert len(set(paths)) == 10
        assert await one.children("/q") == sorted(path.removeprefix("/q/") for path in paths)

    run(scenario)


def test_closing_a_store_ends_its_sessions_and_its_waits(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, backend: Backend) -> None:
        client = await backend.client()
        session = await client.open_session(SESSION_SECONDS)
        await session.create("/live/x", b"")
        waiting = asyncio.ensure_future(client.wait("/a", None))
        await client.get("/live/x")
        await client.close()
        with pytest.raises(HandleClosedError):
            await waiting
        assert session.expired
        await other.wait_children("/live", ["x"])
        for call in (client.get("/a"), client.create("/a", b""), client.children("/a")):
            with pytest.raises(HandleClosedError):
                await call
        await client.close()

    run(scenario)
