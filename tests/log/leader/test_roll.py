"""Rolling and mending: the writes move from ledger to ledger, and nothing is lost on the way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quire.entry import DigestKind, Sealer
from quire.errors import AppendOutcomeUnknownError, BookieUnavailableError, QuireError
from quire.log.leader.log import Log
from quire.log.records.position import Appended, Position
from quire.metastore.layout import LEDGERS
from tests.support.log_cluster import (
    NAME,
    PATH,
    Gate,
    LogCluster,
    append_all,
    lose_answer,
    numbered,
    refuse,
    run,
)
from tests.support.memory_cluster import down, until


def test_while_the_store_is_down_the_old_ledger_goes_on_and_the_roll_follows() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(roll_entries=3)
            client.store.before = refuse()
            for number in range(20):
                assert (await log.append(b"%d" % number)).position.segment == 1
                await asyncio.sleep(0.5)
            client.store.before = refuse("nothing")
            await asyncio.sleep(5)
            assert (await log.append(b"20")).position.segment == 2
            await log.close()
            assert await client.payloads() == numbered(0, 21)
            await cluster.check()
            assert len(await cluster.ledgers()) == 2, "an outage costs no ledgers"

    run(main)


@pytest.mark.parametrize(("method", "path"), [("create", LEDGERS), ("put", PATH)])
def test_appends_do_not_wait_for_metadata_during_a_roll(method: str, path: str) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await log.append(b"0")
            gate = Gate(method, path)
            client.store.before = gate
            roll = asyncio.create_task(log.roll())
            await gate.reached.wait()
            assert (await log.append(b"1")).position.segment == 1
            gate.open.set()
            await roll
            assert (await log.append(b"2")).position.segment == 2
            await log.close()

    run(main)


def test_closing_the_previous_segment_runs_beside_the_new_writes() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await log.append(b"0")
            gate = Gate("put", LEDGERS)
            client.store.before = gate
            roll = asyncio.create_task(log.roll())
            await gate.reached.wait()
            assert (await log.append(b"1")).position.segment == 2
            assert not roll.done()
            gate.open.set()
            await roll
            await log.close()

    run(main)


def test_no_frame_of_the_next_segment_is_sent_before_every_entry_of_the_last_is_acked() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(batch_records=1)
            first = (await cluster.check()).segments[0].ledger
            futures: list[asyncio.Future[Appended]] = []
            early: list[int] = []

            async def before(method: str, ledger: int) -> None:
                if method == "add":
                    await asyncio.sleep(0.01)
                    pending = [each for each in futures if not each.done()]
                    if ledger != first and len(pending) > moved:
                        early.append(ledger)

            moved = 10
            for bookie in cluster.bookies.values():
                bookie.before = before
            futures += [await log.submit(record) for record in numbered(0, 20)]
            roll = asyncio.create_task(log.roll())
            await asyncio.sleep(0.005)
            futures += [await log.submit(record) for record in numbered(20, moved)]
            positions = [await each for each in futures]
            await roll
            assert positions[0].position.segment == 1
            assert positions[-1].position.segment == 2
            assert early == []
            await log.close()

    run(main)


@pytest.mark.parametrize("method", ["create", "put"])
def test_a_lost_answer_during_a_roll_costs_nothing(method: str) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            for number in range(4):
                await log.append(b"%d" % number)
                client.store.after = lose_answer(method, times=2)
                await log.roll()
            await log.close()
            assert await client.payloads() == numbered(0, 4)
            manifest = await cluster.check_all_listed()
            assert [each.number for each in manifest.segments] == [1, 2, 3, 4]

    run(main)


def test_a_trim_by_another_client_during_a_roll_is_merged() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_all(log, numbered(0, 2))
            await log.roll()
            await append_all(log, numbered(2, 2))
            gate = Gate("put", PATH)
            client.store.before = gate
            roll = asyncio.create_task(log.roll())
            await gate.reached.wait()
            await cluster.new_client().logs.trim(NAME, Position(2, 0, 0))
            gate.open.set()
            await roll
            assert not log.is_deposed
            await log.close()
            assert await client.payloads() == numbered(2, 2)
            assert [each.number for each in (await cluster.check()).segments] == [2]

    run(main)


@pytest.mark.parametrize("survivors", [0, 1])
def test_a_ledger_that_fails_is_replaced_and_every_record_is_there_once(survivors: int) -> None:
    """With one copy stored, recovery keeps the entries; with none it drops them."""

    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(batch_records=2)
            await append_all(log, numbered(0, 4))
            bookies = list(cluster.bookies.values())
            for bookie in bookies[survivors:]:
                bookie.before = down("add")
            futures = [await log.submit(record) for record in numbered(4, 6)]
            await asyncio.sleep(3.5)  # append_timeout is 3 s
            for bookie in bookies:
                bookie.before = down("nothing")
            positions = [await each for each in futures]
            assert positions == sorted(positions)
            assert positions[-1].position.segment == (1 if survivors else 2)
            positions.append(await log.append(b"10"))
            assert positions[-1].position.segment == 2
            await log.close()
            records = await cluster.new_client().read()
            assert [each.payload for each in records] == numbered(0, 11)
            assert [(each.position, each.offset) for each in records][4:] == positions
            assert [each.offset for each in records] == list(range(11))
            await cluster.check()

    run(main)


def test_a_ledger_that_fails_in_the_middle_of_a_roll_is_mended_into_the_successor() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(batch_records=2)
            await append_all(log, numbered(0, 4))
            for bookie in cluster.bookies.values():
                bookie.before = down("add")
            futures = [await log.submit(record) for record in numbered(4, 6)]
            roll = asyncio.create_task(log.roll())
            await asyncio.sleep(1)
            assert [each.number for each in (await cluster.check()).open_segments] == [1, 2]
            await asyncio.sleep(3)
            for bookie in cluster.bookies.values():
                bookie.before = down("nothing")
            assert [(await each).position.segment for each in futures] == [2] * 6
            await roll
            await log.close()
            records = await cluster.new_client().read()
            assert [each.payload for each in records] == numbered(0, 10)
            await cluster.check()

    run(main)


def test_a_roll_goes_on_with_what_a_ledger_that_failed_empty_leaves_to_the_next() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            for bookie in cluster.bookies.values():
                bookie.before = down("add")
            future = await log.submit(b"a")
            roll = asyncio.create_task(log.roll())
            await asyncio.sleep(4)  # append_timeout is 3 s
            assert not roll.done()
            for bookie in cluster.bookies.values():
                bookie.before = down("nothing")
            await roll
            assert await future == (Position(2, 0, 0), 0)
            segments = (await cluster.check()).segments
            assert [(each.number, bool(each.end)) for each in segments] == [(2, True), (3, False)]
            await log.close()

    run(main)


async def stranded(cluster: LogCluster) -> tuple[Log, asyncio.Future[Appended]]:
    """Return a log with one record that is confirmed, and the future of one that cannot be."""
    log = await cluster.new_client().open(open_timeout=5.0)
    await log.append(b"0")
    for bookie in cluster.bookies.values():
        bookie.before = down()
    return log, await log.submit(b"1")


@pytest.mark.parametrize("is_mine", [True, False])
def test_a_mended_ledger_confirms_only_the_bytes_that_were_sent(is_mine: bool) -> None:
    """In a store that went back in time another leader's entry may stand under the same id."""

    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            await log.append(b"0")
            for bookie in cluster.bookies.values():
                bookie.before = down("add")
            future = await log.submit(b"mine")
            await until(lambda: bool(log._pipeline._sent))
            parcel, ledger = log._pipeline._sent[0], log._chain.current.writer.ledger
            kept = parcel.stored if is_mine else parcel.stored.replace(b"mine", b"your")
            assert len(kept) == len(parcel.stored)
            sealer = Sealer(ledger, DigestKind.CRC32C, b"")
            for bookie in cluster.bookies.values():
                frames = bookie.ledgers[ledger].frames
                length = sealer.unseal(0, frames[0]).length + len(kept)
                frames[1] = sealer.seal(1, 0, length, kept)
                bookie.before = down("nothing")
            if is_mine:
                assert await future == (Position(1, 1, 0), 1)
                await log.close()
                return
            with pytest.raises(AppendOutcomeUnknownError):
                await future
            await log.wait_deposed()
            with pytest.raises(QuireError, match=r"other bytes than this leader sent"):
                await log.close()

    run(main)


def test_a_ledger_that_cannot_be_mended_leaves_outcomes_unknown_and_ends_the_handle() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log, future = await stranded(cluster)
            with pytest.raises(AppendOutcomeUnknownError):
                await future
            await log.wait_deposed()
            assert not log.is_deposed
            with pytest.raises(AppendOutcomeUnknownError):
                await log.append(b"2")
            with pytest.raises(AppendOutcomeUnknownError, match="of entry 1 of"):
                await log.close()
            for bookie in cluster.bookies.values():
                bookie.before = down("nothing")
            async with await cluster.new_client().open() as successor:
                await successor.append(b"3")
            assert await cluster.new_client().payloads() in ([b"0", b"3"], [b"0", b"1", b"3"])

    run(main)


def test_close_waits_out_an_outage_and_reports_one_that_lasts() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await log.append(b"0")
            client.store.before = refuse()
            closing = asyncio.create_task(log.close())
            await asyncio.sleep(5)
            assert not closing.done()
            client.store.before = refuse("nothing")
            await closing
            assert (await cluster.check()).open_segments == ()

    run(main)


def test_retention_runs_on_a_timer_and_obeys_the_settings_of_the_log() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(retention_interval=10.0)
            for number in range(3):
                await log.append(b"%d" % number)
                await log.roll()
                await cluster.pass_time(100)
            assert len((await cluster.check()).segments) == 4
            await client.logs.set_options(NAME, {"retention_seconds": "150"})
            await asyncio.sleep(15)
            manifest = await cluster.check_all_listed()
            assert [each.number for each in manifest.segments] == [3, 4]
            await log.close()
            assert await client.payloads() == [b"2"]

    run(main)


def test_closing_tells_when_what_was_submitted_cannot_be_confirmed() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log, future = await stranded(cluster)
            with pytest.raises(AppendOutcomeUnknownError):
                await log.close()
            assert future.done()
            with pytest.raises(AppendOutcomeUnknownError):
                await log.close()
            with pytest.raises(AppendOutcomeUnknownError):
                await future

    run(main)


def test_an_abandoned_log_closes_in_silence() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            log.abandon()
            await log.close()

    run(main)


def test_one_clock_years_ahead_deletes_nothing_and_keeps_nothing_forever() -> None:
    keep, years = 200.0, 10 * 365 * 86_400.0

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await (await client.open()).close()
            await client.logs.set_options(NAME, {"retention_seconds": str(keep)})
            async with await client.open() as log:
                await log.append(b"before")
            cluster.now += years
            async with await cluster.new_client().open(retention_interval=10.0) as ahead:
                await ahead.append(b"from the future")
                await cluster.pass_time(25)
            cluster.now -= years
            assert await client.payloads() == [b"before", b"from the future"], "nothing is early"
            async with await cluster.new_client().open(retention_interval=10.0) as right:
                await right.append(b"after")
                await cluster.pass_time(60)
                assert await client.payloads() == [b"before", b"from the future", b"after"]
                await cluster.pass_time(keep - 60 + 15)
                assert await client.payloads() == [b"after"], "and nothing is kept for years"

    run(main)


def test_a_roll_ends_though_the_first_entry_of_its_segment_was_lost_on_its_way() -> None:
    """Recovery keeps the entry, so the writes move on from a segment that nothing had filled."""

    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            writer: Any = log._chain.current.writer
            send = writer.submit

            async def stumble(payload: bytes) -> None:
                await (await send(payload))
                raise BookieUnavailableError("b1", "by order of the test")

            writer.submit = stumble
            future = await log.submit(b"a")
            async with asyncio.timeout(60):
                await log.roll()
            assert await future == (Position(1, 0, 0), 0)
            assert [bool(each.end) for each in (await cluster.check()).segments] == [True, False]
            await log.close()

    run(main)
