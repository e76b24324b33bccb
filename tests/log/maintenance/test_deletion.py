"""Deletions that meet leaders, other deletions, and logs of the same name: what goes is the log
that was meant, and it can always go.
"""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import (
    ConflictError,
    DeposedError,
    LogBeingDeletedError,
    LogReplacedError,
    NoSuchLedgerError,
    NoSuchLogError,
    StoreOutcomeUnknownError,
)
from quire.log.leader.log import Log
from quire.metastore.layout import LEDGERS, PARTS
from tests.log.parts import ingest, write_part
from tests.support.faulty_store import Hook
from tests.support.log_cluster import (
    NAME,
    PATH,
    Client,
    Gate,
    LogCluster,
    append_all,
    lose_answer,
    numbered,
    run,
)


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


def test_two_deletions_at_once_both_find_the_log_gone() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await log.append(b"0")
            log.abandon()
            late = cluster.new_client()
            late.store.before = gate = Gate("get", LEDGERS)
            deleting = asyncio.create_task(late.logs.delete(NAME))
            await gate.reached.wait()
            await client.logs.delete(NAME)
            gate.open.set()
            with pytest.raises(NoSuchLogError):
                await deleting
            assert await cluster.ledgers() == []

    run(main)


def test_a_deletion_is_not_stopped_by_a_take_over_that_drops_an_empty_segment() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            (await client.open()).abandon()
            late = cluster.new_client()
            late.store.before = gate = Gate("get", LEDGERS)
            deleting = asyncio.create_task(late.logs.delete(NAME))
            await gate.reached.wait()
            log: Log = await client.open()
            await log.append(b"0")
            await asyncio.sleep(1)  # its keeper deletes the ledger that nobody wrote
            assert len(await cluster.ledgers()) == 1
            gate.open.set()
            await deleting
            await log.wait_deposed()
            assert (await cluster.ledgers(), await client.logs.list()) == ([], [])

    run(main)


def test_a_log_whose_open_ledger_is_lost_can_still_be_deleted() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await log.append(b"0")
            await log.roll()
            log.abandon()
            tail = (await client.manifest()).tail
            assert tail is not None
            await client.catalog.delete(tail.ledger)
            await client.logs.delete(NAME)
            assert (await cluster.ledgers(), await client.logs.list()) == ([], [])

    run(main)


def test_a_log_that_goes_just_when_it_is_changed_is_said_to_be_gone() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, other = cluster.new_client(), cluster.new_client()

            async def delete(method: str, path: str) -> None:
                if (method, path) == ("put", PATH):
                    await other.logs.delete(NAME)

            client.store.before = delete
            await other.logs.create(NAME)
            with pytest.raises(NoSuchLogError):
                await client.logs.set_options(NAME, {"roll_entries": "5"})
            await other.logs.create(NAME)
            log = await client.open()  # which then has to make it
            position = await log.append(b"0")
            with pytest.raises(DeposedError):
                await log.trim(position.position.after)
            assert log.is_deposed
            assert (await cluster.ledgers(), await client.logs.list()) == ([], [])

    run(main)


def test_who_opens_a_log_that_is_being_deleted_waits_for_the_end_of_that() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, other = cluster.new_client(), cluster.new_client()
            async with await client.open() as log:
                await append_all(log, numbered(0, 3))
            client.store.before = gate = Gate("delete", LEDGERS)
            deleting = asyncio.create_task(client.logs.delete(NAME))
            await gate.reached.wait()
            with pytest.raises(LogBeingDeletedError, match=f"quire log delete {NAME}"):
                await other.open(open_timeout=1.0)
            with pytest.raises(LogBeingDeletedError):
                await ingest(other, [await write_part(other, "job", 0, 5)])
            opening = asyncio.create_task(other.open())
            await asyncio.sleep(0.5)
            assert not opening.done()
            gate.open.set()
            await deleting
            log = await opening
            await log.append(b"new")
            await log.close()
            assert await client.payloads() == [b"new"]

    run(main)


def deleted_at_once(other: Client) -> Hook:
    """A hook for `after`: the first log that is created is deleted before its creator hears."""
    left = [1]

    async def after(method: str, path: str) -> None:
        if left[0] and method in ("create", "commit") and path == PATH:
            left[0] = 0
            await other.logs.delete(NAME)
            raise StoreOutcomeUnknownError(path, "answer lost by order of the test")

    return after


def test_a_log_that_is_deleted_before_its_creator_hears_of_it_can_be_opened() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            client.store.after = deleted_at_once(cluster.new_client())
            log = await client.open()
            await log.append(b"0")
            await log.close()
            assert await client.payloads() == [b"0"]
            await cluster.check_all_listed()

    run(main)


def test_a_creation_that_was_not_made_is_made_with_another_ledger() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            client.store.before = lose_answer("commit", path=PATH)  # the change is lost too
            log = await client.open()
            await log.append(b"0")
            await log.close()
            assert await client.payloads() == [b"0"]

    run(main)


def test_parts_that_are_deleted_before_their_adopter_hears_of_it_are_in_no_log() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            parts = [await write_part(client, "job", 0, 5)]
            client.store.after = deleted_at_once(cluster.new_client())
            with pytest.raises(NoSuchLedgerError):
                await ingest(client, parts)
            assert (await cluster.ledgers(), await client.logs.list()) == ([], [])
            again = [await write_part(client, "job", 0, 5)]
            client.store.before = lose_answer("create", path=PATH)
            await ingest(client, again)
            assert await client.payloads() == numbered(0, 5)

    run(main)


def test_a_manifest_that_is_deleted_before_its_rebuilder_hears_of_it_stays_away() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await log.append(b"0")
            await cluster.store.delete(PATH)
            client.store.after = deleted_at_once(cluster.new_client())
            with pytest.raises(ConflictError, match="may have been made and deleted"):
                await client.logs.rebuild(NAME)
            assert (await cluster.ledgers(), await client.logs.list()) == ([], [])
            with pytest.raises(NoSuchLogError):
                await client.logs.rebuild(NAME)

    run(main)
