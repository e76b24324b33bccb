"""Orphans are swept, nothing else is; a lost manifest is made again from labels."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import permutations

import pytest

from quire.errors import (
    CorruptRecordError,
    DeposedError,
    LogReplacedError,
    ManifestExistsError,
    NoSuchLogError,
    PositionTrimmedError,
    QuireError,
)
from quire.log.records.position import LATEST, AtCursor, Position
from quire.metastore.layout import ledger_path
from tests.log.offloading import ingest
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


async def nothing(method: str, path: str) -> None:
    """No fault."""


def test_only_what_nobody_can_ever_list_is_swept() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(open_timeout=0.5)
            await log.append(b"0")
            crashed = cluster.new_client()
            crashed.store.before = refuse("put", "create", "commit", path=PATH)
            with pytest.raises(QuireError):
                await crashed.open(open_timeout=0.1)
            [orphan] = [
                each for each in await cluster.ledgers() if each != (await listed(cluster))[0]
            ]
            stranger = await cluster.catalog.create()
            await stranger.close()
            assert list(await client.logs.gc()) == [], "whoever made it might still list it"
            log.abandon()
            log = await client.open()
            await log.append(b"1")
            assert list(await client.logs.gc()) in ([], [orphan])
            log.abandon()
            log = await client.open()
            assert orphan not in [*(await cluster.ledgers())] or orphan in await client.logs.gc()
            assert set(await cluster.ledgers()) == {stranger.ledger, *(await listed(cluster))}
            await log.close()
            assert await client.payloads() == [b"0", b"1"]
            cluster.now += 10_000
            assert list(await client.logs.gc()) == []

    run(main)


@pytest.mark.parametrize("is_created_first", [True, False])
def test_a_sweep_with_a_clock_ahead_takes_no_ledger_of_a_log(is_created_first: bool) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            leader, sweeper = cluster.new_client(), cluster.new_client()
            creation = Gate("commit", PATH)
            leader.store.before = creation
            opening = asyncio.create_task(leader.open())
            await creation.reached.wait()
            cluster.now += 10_000  # the sweeper's clock is hours ahead
            if is_created_first:
                leader.store.before = nothing
                creation.open.set()
                log = await opening
                assert list(await sweeper.logs.gc()) == []
            else:
                [forsaken] = await cluster.ledgers()
                assert list(await sweeper.logs.gc()) == [forsaken]
                leader.store.before = nothing
                creation.open.set()
                log = await opening
                assert await listed(cluster) != [forsaken]
            await log.append(b"a")
            await log.close()
            assert await sweeper.payloads() == [b"a"]
            async with await sweeper.open() as again:
                await again.append(b"b")

    run(main)


def test_a_sweep_reads_the_manifest_again_after_it_closed_a_ledger() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            leader, sweeper = cluster.new_client(), cluster.new_client()
            creation = Gate("commit", PATH)
            leader.store.before = creation
            opening = asyncio.create_task(leader.open())
            await creation.reached.wait()
            [ledger] = await cluster.ledgers()
            cluster.now += 10_000
            closing = Gate("put", ledger_path(ledger))
            sweeper.store.before = closing
            sweeping = asyncio.create_task(sweeper.logs.gc())
            await closing.reached.wait()  # it has seen that there is no manifest
            leader.store.before = nothing
            creation.open.set()
            log = await opening
            sweeper.store.before = nothing
            closing.open.set()
            assert list(await sweeping) == []
            assert ledger in await cluster.ledgers()
            log.abandon()
            async with await sweeper.open() as again:
                await again.append(b"b")

    run(main)


@pytest.mark.parametrize("password", [b"", b"secret"])
def test_the_ledgers_of_a_log_whose_manifest_is_lost_are_not_swept(password: bytes) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(password=password)
            await append_all(log, numbered(0, 4))
            await log.roll()
            await append_all(log, numbered(4, 4))
            log.abandon()
            ledgers = set(await listed(cluster))
            await client.store.delete(PATH)
            cluster.now += 10_000
            assert not ledgers & set(await client.logs.gc())
            [sealed, *_] = (await client.logs.unlisted())[NAME]
            assert sealed in ledgers
            await client.logs.rebuild(NAME, password=password)
            reader = await client.logs.read(NAME, password=password)
            async with reader:
                assert [record.payload async for record in reader] == numbered(0, 8)
            assert await client.logs.unlisted() == {}

    run(main)


def test_an_empty_ledger_of_a_log_that_is_gone_is_swept() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await log.append(b"0")
            crashed = cluster.new_client()
            crashed.store.before = refuse("put", "create", "commit", path=PATH)
            with pytest.raises(QuireError):
                await crashed.open(open_timeout=0.1)
            log.abandon()
            await client.logs.delete(NAME)
            left = await cluster.ledgers()
            assert left
            assert await client.logs.gc() == (), "somebody may be making it again"
            cluster.now += 10_000
            assert set(await client.logs.gc()) == set(left)
            assert await client.logs.unlisted() == {}

    run(main)


async def listed(cluster: LogCluster) -> list[int]:
    manifest = await cluster.new_client().manifest()
    return [each.ledger for each in manifest.segments] + list(manifest.doomed)


@pytest.mark.parametrize("crash", [False, True])
def test_a_lost_manifest_is_made_again(crash: bool) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            for first in (0, 4, 8):
                log = await client.open(batch_records=2)
                await append_all(log, numbered(first, 2))
                await log.roll()
                await append_all(log, numbered(first + 2, 2))
                if crash:
                    log.abandon()
                else:
                    await log.close()
            await client.logs.trim(NAME, Position(2, 0, 0))
            with pytest.raises(ManifestExistsError, match="only a lost one"):
                await client.logs.rebuild(NAME)
            before = await client.read()
            log_id = (await client.manifest()).log_id
            await cluster.store.delete(PATH)
            with pytest.raises(NoSuchLogError):
                await client.logs.rebuild("another")
            manifest = await client.logs.rebuild(NAME)
            assert manifest.check() == ()
            assert manifest.log_id == log_id
            after = await client.read()
            assert after[: len(before)] == before
            assert [each.payload for each in after] == numbered(2, 10)
            async with await client.open() as log:
                assert log.epoch > 3
                await log.append(b"more")
            assert (await client.payloads())[-1] == b"more"

    run(main)


@pytest.mark.parametrize("last", [False, True])
def test_a_log_with_ingested_segments_is_not_rebuilt_without_them(last: bool) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            if last:
                async with await client.open() as log:
                    await append_all(log, numbered(0, 5))
            await ingest(client.logs.ingest(NAME))
            [ledger] = [each.ledger for each in (await client.manifest()).segments if each.ingested]
            if not last:
                async with await client.open() as log:
                    await append_all(log, numbered(0, 5))
            await cluster.store.delete(PATH)
            with pytest.raises(CorruptRecordError, match=f"ledger {ledger} .*job"):
                await client.logs.rebuild(NAME)
            assert await client.logs.list() == []
            await client.catalog.delete(ledger)
            if last:
                await client.logs.rebuild(NAME)
                assert await client.payloads() == numbered(0, 5)

    run(main)


def test_a_ledger_that_goes_meanwhile_does_not_stop_a_rebuild() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await append_all(log, numbered(0, 5))
            stranger = await cluster.catalog.create()
            await stranger.close()
            await cluster.store.delete(PATH)

            async def delete(method: str, path: str) -> None:
                if (method, path) == ("get", ledger_path(stranger.ledger)):
                    await cluster.catalog.delete(stranger.ledger)

            client.store.before = delete
            await client.logs.rebuild(NAME)
            assert await client.payloads() == numbered(0, 5)

    run(main)


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_a_rebuilt_log_whose_first_segment_was_never_written_is_not_trimmed(
    is_trimmed: bool,
) -> None:
    """Found by the simulator: a consumer at the beginning was told that it had missed records."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            unused = await client.open()
            cursor = await client.logs.cursors(NAME).open("c")
            assert cursor.position < Position(2, 0, 0)
            async with await client.open(batch_records=1) as log:
                await append_all(log, numbered(0, 2))
                if is_trimmed:
                    await log.roll()
                    await append_all(log, numbered(2, 1))
                    await log.trim(Position(3, 0, 0))
            unused.abandon()
            await client.store.delete(PATH)
            manifest = await client.logs.rebuild(NAME)
            reader = await client.logs.read(NAME, AtCursor("c"))
            async with reader:
                if is_trimmed:
                    assert manifest.trimmed_to == Position(3, 0, 0)
                    with pytest.raises(PositionTrimmedError):
                        await anext(reader)
                else:
                    assert manifest.segments[0].number == 2
                    assert [record.payload async for record in reader] == numbered(0, 2)

    run(main)


def test_a_log_without_any_record_is_rebuilt_as_another_one() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            cursor = await client.logs.cursors(NAME).open("c")
            await append_all(log, numbered(0, 100))
            await log.roll()
            await client.logs.trim(NAME, LATEST)
            before = await client.manifest()
            assert (before.first_offset, log.next_offset) == (100, 100)
            await cluster.store.delete(PATH)
            after = await client.logs.rebuild(NAME)
            assert after == await client.manifest()
            assert after.log_id != before.log_id
            with pytest.raises(DeposedError):
                await log.append(b"old")
            async with await client.open() as log:
                await log.append(b"new")
            async with await client.logs.read(NAME, 100, log_id=before.log_id) as reader:
                with pytest.raises(LogReplacedError):
                    await anext(reader)
            with pytest.raises(LogReplacedError):
                await cursor.advance(Position(2, 0, 0))
            assert await client.payloads() == [b"new"]
            cluster.now += 10_000
            await client.logs.gc()
            await cluster.check_all_listed()

    run(main)


def test_no_epoch_is_handed_out_twice_by_a_log_that_was_rebuilt() -> None:
    """Not even that of a leader that wrote nothing, whose ledger is gone."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await log.append(b"x")
            epochs = [log.epoch]
            for _ in range(3):
                for _ in range(2):
                    cluster.now += 1
                    leader = await cluster.new_client().open()
                    epochs.append(leader.epoch)
                    await leader.close()
                await cluster.store.delete(PATH)
                await client.logs.rebuild(NAME)
            assert epochs == sorted(set(epochs))

    run(main)


def test_a_leader_that_still_lives_is_deposed_by_a_rebuild() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await log.append(b"x")
            silent = Gate("get", PATH)
            client.store.before = silent  # it does not see that its manifest is gone
            await cluster.store.delete(PATH)
            await cluster.new_client().logs.rebuild(NAME)
            client.store.before = refuse("nothing")
            silent.open.set()
            await asyncio.wait_for(log.wait_deposed(), 10)
            assert log.is_deposed

    run(main)


def test_the_ledger_of_a_creation_that_lost_its_race_hides_no_records() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, crashed = cluster.new_client(), cluster.new_client()
            gate = Gate("commit", PATH)
            crashed.store.before = gate
            opening = asyncio.create_task(crashed.open())
            await gate.reached.wait()
            opening.cancel()
            cluster.now -= 1  # its clock
            async with await client.open() as log:
                await append_all(log, numbered(0, 3))
            log_id = (await client.manifest()).log_id
            await cluster.store.delete(PATH)
            assert (await client.logs.rebuild(NAME)).log_id == log_id
            assert await client.payloads() == numbered(0, 3)

    run(main)


YEARS_MS = 100 * 365 * 24 * 3600 * 1000


@pytest.mark.slow
def test_no_clock_decides_about_a_rebuilt_log() -> None:
    """The leaders' clocks and the administrator's are a century off in every combination."""

    async def main(of_leaders: Sequence[int], of_admin: int) -> None:
        async with LogCluster() as cluster:
            client, now = cluster.new_client(), cluster.now
            epochs = []
            for number, clock in enumerate(of_leaders):
                cluster.now = now + clock
                async with await client.open() as log:
                    await append_all(log, numbered(3 * number, 3))
                    epochs.append(log.epoch)
            cluster.now = now + of_admin
            before = await client.read()
            for _ in range(3):
                for _ in range(2):  # leaders that write nothing, with ids of a block drawn before
                    async with await client.open() as log:
                        epochs.append(log.epoch)
                await cluster.store.delete(PATH)
                manifest = await client.logs.rebuild(NAME)
                assert manifest.check() == ()
                assert manifest.epoch > epochs[-1]
            assert epochs == sorted(set(epochs))
            assert [each.payload for each in await client.read()] == numbered(0, 9)
            assert [each.offset for each in await client.read()] == [each.offset for each in before]

    for leaders in permutations((-YEARS_MS // 1000, 0, YEARS_MS // 1000)):
        for admin in (-YEARS_MS // 1000, 0, YEARS_MS // 1000):
            run(partial(main, leaders, admin))


@pytest.mark.parametrize("ahead", [-YEARS_MS // 1000, 0, YEARS_MS // 1000])
def test_of_two_logs_with_records_the_administrator_chooses(ahead: int) -> None:
    """Both manifests were lost. Neither a clock nor an id orders the creation of two logs."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client, now = cluster.new_client(), cluster.now
            log_ids = []
            for payload, clock in ((b"first", 0), (b"second", ahead)):
                cluster.now = now + clock
                async with await client.open() as log:
                    await log.append(payload)
                log_ids.append((await client.manifest()).log_id)
                await cluster.store.delete(PATH)
            with pytest.raises(CorruptRecordError, match=r"2 logs .* --log-id") as caught:
                await client.logs.rebuild(NAME)
            assert all(each in str(caught.value) for each in log_ids)
            with pytest.raises(NoSuchLogError):
                await client.logs.rebuild(NAME, log_id="another")
            assert (await client.logs.rebuild(NAME, log_id=log_ids[0])).log_id == log_ids[0]
            assert await client.payloads() == [b"first"]
            await cluster.store.delete(PATH)
            assert (await client.logs.rebuild(NAME, log_id=log_ids[1])).log_id == log_ids[1]
            assert await client.payloads() == [b"second"]

    run(main)
