"""Transactions: all changes or none, and why not."""

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
from quire.metastore.changes import Absent, Change, Check, Create, Delete, Put
from quire.metastore.layout import VALUE_BYTES_MAX
from quire.metastore.store import MetadataStore
from tests.contract.metastore.two_clients import SESSION_SECONDS, Run
from tests.support.store_backends import Backend


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


def test_a_check_lets_others_change_only_while_a_record_is_the_same(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        seen = await one.create("/a", b"old")
        assert list(await one.commit([Check("/a", seen), Create("/b", b"")])) == ["/b"]
        assert (await other.get("/a")).version == seen, "a check changes nothing"
        await other.put("/a", b"new", seen)
        with pytest.raises(VersionConflictError):
            await one.commit([Create("/c", b""), Check("/a", seen)])
        assert await other.children("/") == ["a", "b"]

    run(scenario)


def test_changes_can_be_made_only_while_a_record_does_not_exist(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        changes: list[Change] = [Create("/b", b""), Absent("/deep/a"), Create("/c", b"")]
        versions = await one.commit(changes)
        assert sorted(versions) == ["/b", "/c"]
        assert [(await other.get(each)).version for each in ("/b", "/c")] == list(versions.values())
        with pytest.raises(NoSuchNodeError):
            await other.get("/deep/a")
        await other.create("/deep/a", b"")
        with pytest.raises(NodeExistsError, match="/deep/a"):
            await one.commit([Delete("/b"), Absent("/deep/a")])
        assert (await other.get("/b")).value == b""

    run(scenario)


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (Absent("/there"), NodeExistsError),
        (Create("/there", b""), NodeExistsError),
        (Put("/not/there", b"", 1), NoSuchNodeError),
        (Put("/there", b"", -7), VersionConflictError),
        (Delete("/not/there"), NoSuchNodeError),
        (Check("/not/there", 1), NoSuchNodeError),
        (Check("/there", -7), VersionConflictError),
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
            [Create("/b", half), Create("/c", half + bytes(10_000))],
            [Create("/b", half * 2 + b"x")],
        ]
        for changes in refused:
            with pytest.raises(InvalidRequestError):
                await one.commit(changes)
        assert await one.children("/") == ["a"]
        version = (await one.get("/a")).version
        await one.commit([Create("/b", half * 2), Check("/a", version), Absent("/c")])
        await one.commit([Create(f"/many/{n}", b"") for n in range(500)])
        assert len(await one.children("/many")) == 500

    run(scenario)
