"""The directory: logs by name, described, trimmed, configured and deleted."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import (
    ConfigurationError,
    InvalidRequestError,
    LogReplacedError,
    NoSuchLogError,
    StoreUnavailableError,
)
from quire.log.manifest.options import LogOptions
from quire.log.records.position import BEGINNING, LATEST, Position
from quire.metastore.layout import LEDGERS
from tests.support.log_cluster import (
    NAME,
    PATH,
    Gate,
    LogCluster,
    append_all,
    numbered,
    refuse,
    run,
)


def test_logs_are_listed_by_the_names_they_were_given() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            logs = cluster.new_client().logs
            assert await logs.list() == []
            names = ["b", "a/b c", "größe", "%41"]
            for name in names:
                await (await logs.open(name, LogOptions())).close()
            assert await logs.list() == sorted(names)
            assert (await logs.describe("größe")).name == "größe"

    run(main)


def test_logs_are_independent() -> None:
    """D16: every log has its own leader."""

    async def main() -> None:
        async with LogCluster() as cluster:
            one, other = cluster.new_client(), cluster.new_client()
            first = await one.logs.open("first", LogOptions())
            second = await other.logs.open("second", LogOptions())
            await asyncio.gather(first.append(b"1"), second.append(b"2"))
            await (await other.logs.open("second", LogOptions())).close()
            await second.wait_deposed()
            assert not first.is_deposed
            await first.append(b"1")
            await first.close()

    run(main)


def test_what_is_done_to_a_log_that_does_not_exist_says_so() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            logs = cluster.new_client().logs
            for call in (
                logs.describe(NAME),
                logs.delete(NAME),
                logs.trim(NAME, Position(1, 0, 0)),
                logs.set_options(NAME, {}),
            ):
                with pytest.raises(NoSuchLogError, match="a/log"):
                    await call

    run(main)


def test_trim_is_bounded_by_what_is_confirmed_and_does_not_disturb_the_leader() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            positions = [await log.append(record) for record in numbered(0, 4)]
            await asyncio.sleep(0.1)
            other = cluster.new_client()
            for beyond in (Position(1, 9, 0), Position(7, 0, 0)):
                with pytest.raises(InvalidRequestError, match="has no position"):
                    await other.logs.trim(NAME, beyond)
            for offset in (-1, 5):
                with pytest.raises(InvalidRequestError, match=r"next record gets 4|not a place"):
                    await other.logs.trim(NAME, offset)
            await other.logs.trim(NAME, positions[2].position)
            await other.logs.trim(NAME, BEGINNING)
            await log.append(b"4")
            assert not log.is_deposed
            await asyncio.sleep(0.1)
            assert await other.payloads() == numbered(2, 3)
            await other.logs.trim(NAME, 3)
            assert await other.payloads() == numbered(3, 2)
            await other.logs.trim(NAME, 1)
            await asyncio.sleep(0.1)
            await other.logs.trim(NAME, LATEST)
            assert await other.payloads() == []
            assert not log.is_deposed
            await log.append(b"5")
            await log.close()
            assert await other.payloads() == numbered(5, 1)

    run(main)


def test_a_trim_is_meant_for_the_log_that_its_position_is_from() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await append_all(log, numbered(0, 3))
                old = log.log_id
            trimmer = cluster.new_client()
            gate = Gate("put", PATH)
            trimmer.store.before = gate
            trimming = asyncio.create_task(trimmer.logs.trim(NAME, 2))
            await gate.reached.wait()
            await client.logs.delete(NAME)
            async with await client.open() as log:
                await append_all(log, numbered(0, 3))
            gate.open.set()
            with pytest.raises(LogReplacedError):
                await trimming
            with pytest.raises(LogReplacedError):
                await client.logs.trim(NAME, 2, log_id=old)
            assert await client.payloads() == numbered(0, 3)
            await client.logs.trim(NAME, 2, log_id=log.log_id)
            assert await client.payloads() == [b"2"]

    run(main)


def test_a_trim_that_was_interrupted_is_finished_by_the_next_leader() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await append_all(log, numbered(0, 3))
                await log.roll()
                position, _ = await log.append(b"3")
            trimmer = cluster.new_client()
            trimmer.store.before = refuse("delete", path=LEDGERS)
            await trimmer.logs.trim(NAME, position)
            manifest = await cluster.check()
            assert len(manifest.doomed) == 1
            assert len(await cluster.ledgers()) == 2
            async with await client.open():
                await asyncio.sleep(0.1)
                manifest = await cluster.check_all_listed()
                assert manifest.doomed == ()
            assert await client.payloads() == [b"3"]

    run(main)


def test_concurrent_trims_are_merged_to_the_furthest() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                positions = []
                for number in range(6):
                    positions.append(await log.append(b"%d" % number))
                    await log.roll()
            clients = [cluster.new_client() for _ in positions]
            await asyncio.gather(
                *(
                    each.logs.trim(NAME, position.position)
                    for each, position in zip(clients, positions, strict=True)
                )
            )
            assert await client.payloads() == [b"5"]
            manifest = await cluster.check()
            assert (len(manifest.segments), manifest.doomed) == (1, ())
            assert len(await cluster.ledgers()) == 1

    run(main)


def test_delete_removes_everything_deposes_the_leader_and_can_be_repeated() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            for number in range(3):
                await log.append(b"%d" % number)
                await log.roll()
            await log.append(b"3")
            interrupted = cluster.new_client()
            interrupted.store.before = refuse("delete")
            with pytest.raises(StoreUnavailableError):
                await interrupted.logs.delete(NAME)
            await log.wait_deposed()
            assert log.is_deposed
            await cluster.new_client().logs.delete(NAME)
            assert await client.logs.list() == []
            assert await cluster.ledgers() == []
            async with await client.open() as again:
                assert again.epoch == 1
                assert again.log_id != log.log_id

    run(main)


def test_a_follower_of_a_log_that_is_being_deleted_does_not_take_it_for_sealed() -> None:
    """Deleting takes several steps; in between the log is there, and has nothing more to say."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_all(log, numbered(0, 3))
            reader = cluster.new_client()
            follower = await reader.logs.read(NAME, follow=True)
            assert [(await anext(follower)).payload for _ in range(3)] == numbered(0, 3)
            interrupted = cluster.new_client()
            interrupted.store.before = refuse("delete")
            with pytest.raises(StoreUnavailableError):
                await interrupted.logs.delete(NAME)
            with pytest.raises(NoSuchLogError):
                await anext(follower)
            await follower.close()
            with pytest.raises(NoSuchLogError):
                await reader.read()
            await log.wait_deposed()
            # A log that was sealed on purpose ends its followers in peace.
            await cluster.new_client().logs.delete(NAME)
            log = await client.open()
            await log.append(b"last")
            async with await reader.logs.read(NAME, follow=True) as follower:
                assert (await anext(follower)).payload == b"last"
                await log.seal()
                assert [record async for record in follower] == []

    run(main)


def test_settings_hold_for_every_leader_and_are_checked() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await (await client.open()).close()
            with pytest.raises(ConfigurationError, match="no option 'colour'"):
                await client.logs.set_options(NAME, {"colour": "red"})
            await client.logs.set_options(NAME, {"roll_entries": "2", "batch_records": "1"})
            async with await client.open() as log:
                for number in range(9):
                    await log.append(b"%d" % number)
                    await asyncio.sleep(0.1)
            assert len((await cluster.check()).segments) == 5

    run(main)


def test_the_tail_is_found_while_a_take_over_drops_an_empty_segment() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, other = cluster.new_client(), cluster.new_client()
            (await client.open()).abandon()
            client.store.before = gate = Gate("get", LEDGERS)
            finding = asyncio.create_task(client.logs.tail(NAME, linearizable=True))
            await gate.reached.wait()
            log = await other.open()
            await log.append(b"0")
            await asyncio.sleep(1)  # its keeper deletes the ledger of the one before
            gate.open.set()
            assert (await finding).offset == 1
            await log.close()

    run(main)
