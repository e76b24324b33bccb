"""What a client does when bookies deny it a right: it ends at once, and spares the bookies."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import AppendOutcomeUnknownError, NotPermittedError
from tests.support.log_cluster import LogCluster
from tests.support.virtual import virtually
from tests.support.writing import Writing, settle

DENIAL = NotPermittedError("quire://client/app", "append", "ledger 0")


def deny(cluster: LogCluster, *methods: str) -> list[str]:
    """Deny these methods from now on; the list returned grows by every call."""
    calls: list[str] = []

    async def before(method: str, ledger: int) -> None:
        calls.append(method)
        if method in methods:
            raise NotPermittedError("quire://client/app", method, f"ledger {ledger}")

    for bookie in cluster.bookies.values():
        bookie.before = before
    return calls


def test_a_writer_ends_and_replaces_no_bookie() -> None:
    async def main() -> None:
        async with Writing() as world:
            await world.writer.append(b"0")
            before = (await world.metadata()).fragments
            for bookie in world.bookies.values():
                bookie.fail_with(DENIAL)
            with pytest.raises(AppendOutcomeUnknownError, match="quire rights grant"):
                await world.writer.append(b"1")
            with pytest.raises(NotPermittedError):
                await world.writer.append(b"2")
            assert (await world.metadata()).fragments == before

    virtually(main)


async def test_a_writer_that_one_bookie_denies_ends_too() -> None:
    async with Writing() as world:
        before = (await world.metadata()).fragments
        next(iter(world.bookies.values())).fail_with(DENIAL)
        first = asyncio.ensure_future(world.writer.append(b"0"))
        await settle()  # two others acknowledge it
        with pytest.raises(NotPermittedError):
            await world.writer.append(b"1")
        await asyncio.gather(first, return_exceptions=True)
        assert (await world.metadata()).fragments == before


async def test_a_leader_names_the_append_that_was_denied(cluster: LogCluster) -> None:
    """It would be denied the recovery of its segment, too, and begins none."""
    client = cluster.new_client()
    log = await client.open()
    await log.append(b"0")
    before = (await client.manifest()).segments
    calls = deny(cluster, "add", "read", "read_tail")
    for _ in range(2):
        with pytest.raises(AppendOutcomeUnknownError, match="no right to add on ledger"):
            await log.append(b"1")
    assert set(calls) == {"add"}
    assert (await client.manifest()).segments == before
    log.abandon()


async def make_ledger(cluster: LogCluster) -> int:
    writer = await cluster.catalog.create()
    for number in range(10):
        await writer.append(b"%d" % number)
    await writer.close()
    return writer.ledger


async def test_a_reader_hears_of_it_at_once(cluster: LogCluster) -> None:
    ledger = await make_ledger(cluster)
    deny(cluster, "read")
    async with await cluster.catalog.open_without_recovery(ledger) as reader:
        with pytest.raises(NotPermittedError, match="quire rights"):
            await reader.read_entry(3)


async def test_a_follower_hears_of_it_instead_of_waiting(cluster: LogCluster) -> None:
    writer = await cluster.catalog.create()
    await writer.append(b"0")
    async with await cluster.catalog.open_without_recovery(writer.ledger) as reader:
        deny(cluster, "read", "wait_tail")
        with pytest.raises(NotPermittedError):
            async for _ in reader.follow():
                pass
    writer.abandon()


@pytest.mark.parametrize("methods", [["read_tail"], ["read"], ["add"]])
async def test_a_recovery_ends_and_changes_no_ensemble(
    cluster: LogCluster, methods: list[str]
) -> None:
    writer = await cluster.catalog.create()
    for number in range(3):
        await writer.append(b"%d" % number)
    before = writer._metadata.fragments
    deny(cluster, *methods)
    with pytest.raises(NotPermittedError):
        await cluster.catalog.open(writer.ledger)
    record = await cluster.catalog.records.read(writer.ledger)
    assert record.metadata.fragments == before
    assert not record.metadata.is_closed
    writer.abandon()
