"""Logs that are created before anybody leads them, and watched while they come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TypeVar

import pytest

from quire.errors import ConfigurationError, LogExistsError, NoSuchLogError
from quire.log.manifest.manifest import LogManifest
from quire.log.records.position import Position
from tests.support.log_cluster import NAME, LogCluster, lose_answer, refuse, run

T = TypeVar("T")


async def nothing_new(source: AsyncGenerator[T, None]) -> asyncio.Task[T]:
    """Ask for what comes next, and see that nothing does for a while."""
    waiting = asyncio.ensure_future(anext(source))
    await asyncio.sleep(5)
    assert not waiting.done()
    return waiting


def test_a_created_log_is_empty_and_has_its_settings() -> None:
    async def main() -> None:
        async with LogCluster(5) as cluster:
            client = cluster.new_client()
            made = await client.logs.create(NAME, {"replication": "4/3/2"})
            assert await client.manifest() == made
            assert made.check() == ()
            assert await client.read() == []
            assert (await client.logs.tail(NAME)).offset == 0
            with pytest.raises(LogExistsError, match="exists"):
                await cluster.new_client().logs.create(NAME)
            with pytest.raises(ConfigurationError, match="colour"):
                await client.logs.create("other", {"colour": "red"})
            assert await client.logs.list() == [NAME]
            async with await client.logs.read(NAME, follow=True) as follower:
                log = await client.open()
                assert log.log_id == made.log_id
                assert await log.append(b"first") == (Position(1, 0, 0), 0)
                assert (await anext(follower)).payload == b"first"
                ledger = (await client.manifest()).segments[0].ledger
                replication = (await client.catalog.metadata(ledger)).replication
                assert str(replication) == "4/3/2"
                await log.close()
            await client.logs.delete(NAME)
            assert (await client.logs.create(NAME)).log_id != made.log_id

    run(main)


def test_a_creation_whose_answer_is_lost_is_done_once() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            client.store.after = lose_answer("create")
            made = await client.logs.create(NAME)
            assert await client.manifest() == made

    run(main)


def test_names_are_yielded_whenever_they_change_and_outages_are_waited_out() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            names = client.logs.watch()
            assert await anext(names) == []
            waiting = await nothing_new(names)
            await client.logs.create("größe/b")
            assert await waiting == ["größe/b"]
            other = cluster.new_client()
            client.store.before = refuse("children")
            await other.logs.create("a")
            await other.logs.create("c")
            waiting = await nothing_new(names)
            client.store.before = refuse("nothing")
            assert await waiting == ["a", "c", "größe/b"]
            waiting = await nothing_new(names)
            await other.logs.delete("c")
            assert await waiting == ["a", "größe/b"]
            await names.aclose()

    run(main)


def test_a_log_is_watched_until_it_is_deleted() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            with pytest.raises(NoSuchLogError):
                await anext(client.logs.watch_log(NAME))
            made = await client.logs.create(NAME)
            seen: list[LogManifest] = []
            watching = asyncio.create_task(collect(client.logs.watch_log(NAME), seen))
            await asyncio.sleep(1)
            assert seen == [made]
            log = await client.open()
            await log.append(b"a")
            await client.logs.set_options(NAME, {"roll_entries": "5"})
            await asyncio.sleep(1)
            assert seen[-1] == await client.manifest()
            assert len(seen) > 1
            await log.close()
            await client.logs.delete(NAME)
            await client.logs.create(NAME)
            await watching
            assert {each.log_id for each in seen} == {made.log_id}

    run(main)


async def collect(source: AsyncGenerator[LogManifest, None], seen: list[LogManifest]) -> None:
    async for manifest in source:
        seen.append(manifest)  # noqa: PERF401 - what was seen counts before the end, too
