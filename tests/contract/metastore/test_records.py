"""Records: created, read, replaced and deleted by their versions, below their parents."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import (
    ConflictError,
    InvalidRequestError,
    NodeExistsError,
    NoSuchNodeError,
    VersionConflictError,
)
from quire.metastore.layout import VALUE_BYTES_MAX
from quire.metastore.store import MetadataStore
from tests.contract.metastore.two_clients import SESSION_SECONDS, Run
from tests.support.store_backends import Backend


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


def test_of_many_records_the_changed_ones_are_named(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        assert await one.changed({}) == []
        seen: dict[str, int | None] = {
            f"/d/{name}": await other.create(f"/d/{name}", b"") for name in "cab"
        }
        seen["/d/none"] = seen["/elsewhere/none"] = None
        assert await one.changed(seen) == []
        changed = await other.put("/d/c", b"1", seen["/d/c"] or 0)
        await other.delete("/d/a")
        await other.create("/d/none", b"")
        assert await one.changed(seen) == ["/d/a", "/d/c", "/d/none"]
        assert await one.changed({"/d/b": seen["/d/b"], "/d/c": changed}) == []
        await other.create("/d/a", b"")
        assert await one.changed({"/d/a": seen["/d/a"], "/d/b": None}) == ["/d/a", "/d/b"]
        with pytest.raises(InvalidRequestError):
            await one.changed({"no path": None})

    run(scenario)
