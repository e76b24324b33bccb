"""Jobs that are dropped, and logs that are deleted with jobs: what goes, and what stays."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import (
    InvalidRequestError,
    NoSuchLedgerError,
)
from quire.log.manifest.manifest import LogManifest
from quire.metastore.layout import PARTS, ledger_path
from tests.log.parts import ingest, write_part
from tests.support.log_cluster import (
    NAME,
    PATH,
    Gate,
    LogCluster,
    append_all,
    numbered,
    run,
)


def test_parts_that_are_not_ingested_are_swept() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            kept = await write_part(client, "job", 0, 5)
            failed = await write_part(client, "job", 100, 5, close=False)
            other = await write_part(client, "other", 200, 5)
            empty = await write_part(client, "job", 0, 0)
            with pytest.raises(InvalidRequestError, match=f"ledger {failed} cannot"):
                await ingest(client, [kept, failed])
            assert sorted(await cluster.ledgers()) == sorted([kept, failed, other, empty])
            await ingest(client, [kept, empty])
            assert sorted(await cluster.ledgers()) == sorted([kept, other])
            assert await client.logs.ingest(NAME).jobs() == ["other"]
            await client.logs.ingest(NAME).drop("other")
            assert await client.logs.ingest(NAME).jobs() == []
            assert await cluster.ledgers() == [kept]
            with pytest.raises(NoSuchLedgerError):
                await ingest(client, [other], "other")
            assert await client.payloads() == numbered(0, 5)

    run(main)


def test_a_log_that_is_deleted_takes_its_jobs_along() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await ingest(client, [await write_part(client, "done", 0, 3)], "done")
            await write_part(client, "never/done", 0, 3)
            await client.logs.delete(NAME)
            assert await cluster.ledgers() == []
            assert await client.logs.ingest(NAME).jobs() == []

    run(main)


@pytest.mark.parametrize("look", [2, 3])
def test_a_log_that_is_deleted_meanwhile_does_not_come_back_without_its_ledgers(look: int) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await append_all(log, numbered(0, 3))
            late, looks = cluster.new_client(), 0
            part = await write_part(late, "job", 3, 3)

            async def delete(method: str, path: str) -> None:
                nonlocal looks
                looks += (method, path) == ("get", PATH)
                if looks == look:
                    looks += 1
                    await client.logs.delete(NAME)

            late.store.before = delete
            with pytest.raises(NoSuchLedgerError):
                await ingest(late, [part])
            assert (await cluster.ledgers(), await client.logs.list()) == ([], [])

    run(main)


def test_what_was_ingested_while_a_job_was_being_dropped_stays() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, zombie = cluster.new_client(), cluster.new_client()
            part = await write_part(client, "job", 0, 3)
            client.store.before = gate = Gate("children", PARTS)
            tasks: list[asyncio.Task[LogManifest]] = []

            async def meanwhile(method: str, path: str) -> None:
                if method == "children" and not tasks:
                    tasks.append(asyncio.create_task(ingest(client, [part])))
                    await gate.reached.wait()  # it is in the log, and still registered

            zombie.store.before = meanwhile
            await zombie.logs.ingest(NAME).drop("job")
            gate.open.set()
            await tasks[0]
            assert await cluster.new_client().payloads() == numbered(0, 3)

    run(main)


@pytest.mark.parametrize("before", [2, 0], ids=["a log", "no log"])
def test_what_was_ingested_right_before_its_deletion_stays(before: int) -> None:
    """Also where the ingest makes the log."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client, zombie = cluster.new_client(), cluster.new_client()
            if before:
                async with await client.open() as log:
                    await append_all(log, numbered(0, before))
            part = await write_part(client, "job", before, 3)
            ingested: list[LogManifest] = []

            async def meanwhile(method: str, path: str) -> None:
                if path == ledger_path(part) and method in ("delete", "commit") and not ingested:
                    ingested.append(await ingest(client, [part]))

            zombie.store.before = meanwhile
            await zombie.logs.ingest(NAME).drop("job")
            assert ingested
            assert await cluster.new_client().payloads() == numbered(0, before + 3)

    run(main)
