"""Deletions that meet leaders, other deletions, and logs of the same name: what goes is the log
that was meant, and it can always go.
"""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import LogReplacedError
from quire.metastore.layout import PARTS
from tests.support.log_cluster import NAME, PATH, Gate, LogCluster, append_all, numbered, run


def test_the_next_log_of_the_name_survives_a_deletion_of_the_one_before() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await log.append(b"to be deleted")
            late = cluster.new_client()
            late.store.before = gate = Gate("children", PARTS)
            deleting = asyncio.create_task(late.logs.delete(NAME))
            await gate.reached.wait()
            await client.logs.delete(NAME)
            log = await client.open()
            await append_all(log, numbered(0, 3))
            await client.logs.cursors(NAME).open("c")
            gate.open.set()
            with pytest.raises(LogReplacedError):
                await deleting
            await append_all(log, numbered(3, 3))
            assert not log.is_deposed
            await log.close()
            assert await client.payloads() == numbered(0, 6)
            assert [each.name for each in await client.logs.cursors(NAME).list()] == ["c"]

    run(main)


def test_an_empty_log_is_not_taken_for_the_empty_one_before() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await client.logs.create(NAME)
            late, calls = cluster.new_client(), 0

            async def replace(method: str, path: str) -> None:
                nonlocal calls
                calls += (method, path) == ("get", PATH)
                if calls == 2:
                    calls += 1
                    await client.logs.delete(NAME)
                    await client.logs.create(NAME, {"roll_entries": "5"})

            late.store.before = replace
            with pytest.raises(LogReplacedError):
                await late.logs.delete(NAME)
            assert (await client.manifest()).settings == {"roll_entries": "5"}

    run(main)
