"""Ingest: whole jobs or nothing, once, behind everything that was there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quire.errors import (
    DeposedError,
    InvalidRequestError,
    LogSealedError,
    NoSuchLedgerError,
    OvertakenError,
    StoreUnavailableError,
)
from quire.log.manifest.manifest import Job
from quire.log.records.position import LATEST, Position
from quire.log.records.producers import ProducerSequence
from quire.metastore.layout import LEDGERS, PARTS, log_path
from tests.log.offloading import offload
from tests.log.parts import ingest, write_part
from tests.support.log_cluster import (
    NAME,
    LogCluster,
    append_all,
    lose_answer,
    numbered,
    refuse,
    run,
)


def test_parts_come_behind_what_was_there_and_before_what_follows() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_all(log, numbered(0, 10))
            parts = [await write_part(client, "job", 10, 7), await write_part(client, "job", 17, 4)]
            cluster.now -= 50
            manifest = await ingest(client, parts)
            with pytest.raises(DeposedError):
                await log.append(b"late")
            async with await client.open() as log:
                await append_all(log, numbered(21, 5))
            records = await client.read()
            assert [each.payload for each in records] == numbered(0, 26)
            assert [each.offset for each in records] == list(range(26))
            assert [each.epoch for each in records] == [1] * 10 + [2] * 11 + [3] * 5
            times = [each.timestamp_ms for each in records]
            assert times == sorted(times)
            for each in records:
                assert (await client.read(each.position))[0] == each
                assert (await client.read(each.offset))[0] == each
            assert [each.ingested for each in manifest.segments] == [False, True, True]
            spans = await client.logs.snapshot(NAME)
            found = [
                (piece.batch.header.first_offset + slot, piece.batch.header.epoch)
                for span in spans
                async for piece in client.logs.read_span(span)
                for slot in piece.slots
            ]
            assert found == [(each.offset, each.epoch) for each in records]
            await cluster.check()

    run(main)


def test_a_job_that_is_remembered_is_done_also_when_its_parts_were_trimmed_since() -> None:
    """Found by the simulator: who had no answer tried again for ever."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            part = await write_part(client, "job", 0, 5)
            await ingest(client, [part])
            await client.logs.trim(NAME, LATEST)
            assert part not in await cluster.ledgers()
            manifest = await ingest(client, [part])
            assert manifest.end_offset == 5
            with pytest.raises(NoSuchLedgerError):
                await ingest(client, [part], sequence=2)
            with pytest.raises(NoSuchLedgerError):
                await ingest(client, [part], remember=False)

    run(main)


def test_parts_that_were_offloaded_since_are_not_ingested_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            part = await write_part(client, "job", 0, 5)
            await ingest(client, [part], remember=False)
            before = await offload(client, tmp_path)
            assert part not in await cluster.ledgers()
            assert await ingest(client, [part], remember=False) == before
            assert await client.payloads() == numbered(0, 5)

    asyncio.run(main())


def test_parts_that_were_trimmed_and_not_deleted_yet_are_not_ingested_again() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            part = await write_part(client, "job", 0, 5)
            await ingest(client, [part], remember=False)
            client.store.before = refuse("delete", path=LEDGERS)
            await client.logs.trim(NAME, LATEST)
            manifest = await client.manifest()
            assert manifest.doomed == (part,)
            assert await ingest(client, [part], remember=False) == manifest

    run(main)


def test_a_part_is_registered_with_its_ledger_or_there_is_none() -> None:
    """They are one change, so a sweep finds all that there is to delete."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            ingest = client.logs.ingest(NAME)
            client.store.before = refuse("commit")
            with pytest.raises(StoreUnavailableError):
                await write_part(client, "job", 0, 5)
            assert await cluster.ledgers() == []
            # Nothing but the one txid is needed once the ledger has its number.
            client.store.before = refuse("create", "put", "delete", path=PARTS)
            client.store.after = lose_answer("commit")
            part = await write_part(client, "job", 0, 5)
            assert await cluster.ledgers() == [part]
            assert await ingest.jobs() == ["job"]
            await cluster.new_client().logs.ingest(NAME).drop("job")
            assert await cluster.ledgers() == []

    run(main)


def test_a_follower_goes_on_through_parts() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_all(log, numbered(0, 5))
            async with await cluster.new_client().logs.read(NAME, follow=True) as follower:
                seen = [await anext(follower) for _ in range(5)]
                await ingest(client, [await write_part(client, "job", 5, 7)])
                seen += [await anext(follower) for _ in range(7)]
                async with await client.open() as log:
                    await append_all(log, numbered(12, 3))
                    seen += [await anext(follower) for _ in range(3)]
            assert [each.payload for each in seen] == numbered(0, 15)
            assert [each.offset for each in seen] == list(range(15))

    run(main)


def test_a_log_that_does_not_exist_is_created() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await ingest(client, [await write_part(client, "job", 0, 5)])
            assert await client.payloads() == numbered(0, 5)
            assert await client.payloads(Position(1, 1, 1)) == numbered(4, 1)

    run(main)


def test_a_job_that_is_remembered_is_ingested_once() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            for _ in range(2):
                await ingest(client, [await write_part(client, "job", 0, 5)], sequence=7)
                assert await client.logs.ingest(NAME).has_done(Job("job", 7))
            assert not await client.logs.ingest(NAME).has_done(Job("job", 8))
            await ingest(client, [await write_part(client, "job", 5, 5)], sequence=8)
            await ingest(client, [], sequence=9)
            await ingest(client, [await write_part(client, "job", 99, 5)], sequence=9)
            assert await client.payloads() == numbered(0, 10)
            assert len(await cluster.ledgers()) == 2
            assert (await client.manifest()).jobs == (Job("job", 9),)

    run(main)


def test_work_that_follows_another_place_is_not_ingested() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            ingest = client.logs.ingest(NAME)
            for after, sequence in ((0, 5), (0, 5), (5, 9)):  # what was done may be done again
                part = await write_part(client, "job", after, sequence - after)
                await ingest.ingest([part], Job("job", sequence), remember=True, after=after)
            part = await write_part(client, "job", 5, 7)
            with pytest.raises(OvertakenError, match="has come to sequence 9, not 5"):
                await ingest.ingest([part], Job("job", 12), remember=True, after=5)
            assert await client.payloads() == numbered(0, 9)
            await ingest.drop("job")
            assert len(await cluster.ledgers()) == 2

    run(main)


@pytest.mark.parametrize("remember", [True, False])
def test_an_answer_that_is_lost_doubles_nothing(remember: bool) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await append_all(log, numbered(0, 5))
            parts = [await write_part(client, "job", 5, 5)]
            client.store.after = lose_answer("put", path=log_path(NAME), times=2)
            await ingest(client, parts, remember=remember)
            await ingest(client, parts, remember=remember)
            assert await client.payloads() == numbered(0, 10)
            await cluster.check()

    run(main)


def test_two_jobs_at_once_both_come_in_whole() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            clients = [cluster.new_client() for _ in range(4)]
            log = await clients[0].open()
            await append_all(log, numbered(0, 3))
            names = [f"job-{number}" for number in range(4)]
            parts = [
                [await write_part(client, name, 100 * index, 6)]
                for index, (client, name) in enumerate(zip(clients, names, strict=True))
            ]
            await asyncio.gather(
                *(ingest(*each) for each in zip(clients, parts, names, strict=True))
            )
            payloads = await clients[0].payloads()
            blocks = [tuple(payloads[at : at + 6]) for at in range(3, 27, 6)]
            assert sorted(blocks) == sorted(tuple(numbered(100 * n, 6)) for n in range(4))
            assert [each.offset for each in await clients[0].read()] == list(range(27))
            await cluster.check()
            log.abandon()

    run(main)


def test_producers_are_remembered_over_ingested_segments_which_are_not_read() -> None:
    """Found by the simulator: what was sent again behind an ingest was in the log twice."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                first = await log.append(b"one", producer_sequence=ProducerSequence("p", 1))
                await log.append(b"unnumbered")
                await log.roll()
                second = await log.append(b"two", producer_sequence=ProducerSequence("p", 2))
            part = await write_part(client, "job", 0, 7)
            await ingest(client, [part])
            asked: set[int] = set()

            async def before(method: str, ledger: int) -> None:
                asked.add(ledger)

            for bookie in cluster.bookies.values():
                bookie.before = before
            async with await client.open() as log:
                assert await log.append(b"one", producer_sequence=ProducerSequence("p", 1)) == first
                assert (
                    await log.append(b"two", producer_sequence=ProducerSequence("p", 2)) == second
                )
                await log.append(b"three", producer_sequence=ProducerSequence("p", 3))
            assert asked
            assert part not in asked
            async with await client.open() as log:
                await log.append(b"three", producer_sequence=ProducerSequence("p", 3))
                assert log.next_offset == 3 + 7 + 1

    run(main)


def test_a_sealed_log_ingests_nothing() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_all(log, numbered(0, 3))
            await log.seal()
            part = await write_part(client, "job", 0, 5)
            with pytest.raises(LogSealedError):
                await ingest(client, [part])
            assert await client.payloads() == numbered(0, 3)

    run(main)


def test_trimming_reaches_into_parts() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            parts = [await write_part(client, "job", 0, 6), await write_part(client, "job", 6, 6)]
            await ingest(client, parts)
            await client.logs.trim(NAME, Position(2, 0, 2))
            assert await client.payloads() == numbered(8, 4)
            assert await cluster.ledgers() == [parts[1]]

    run(main)


def test_a_sequence_that_a_manifest_cannot_hold_is_refused() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            part = await write_part(client, "job", 0, 3)
            with pytest.raises(InvalidRequestError, match="sequence"):
                await ingest(client, [part], sequence=2**63)
            assert await client.logs.list() == []
            await ingest(client, [part], sequence=2**63 - 1)
            assert await client.payloads() == numbered(0, 3)

    run(main)


@pytest.mark.parametrize("sequence", [1.0, True, "1", None])
def test_a_sequence_that_could_not_be_read_again_is_refused(sequence: Any) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await append_all(log, numbered(0, 3))
            part = await write_part(client, "job", 3, 3)
            with pytest.raises(
                InvalidRequestError, match=r"sequence .* of job 'job' is not a number"
            ):
                await ingest(client, [part], sequence=sequence)
            assert await client.payloads() == numbered(0, 3)
            await ingest(client, [part], sequence=1)
            assert await client.payloads() == numbered(0, 6)

    run(main)


def test_a_part_that_is_given_twice_is_refused() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            part = await write_part(client, "job", 0, 3)
            with pytest.raises(InvalidRequestError, match=f"ledger {part} is given twice"):
                await ingest(client, [part, part])
            await ingest(client, [part])
            assert await client.payloads() == numbered(0, 3)

    run(main)


def test_a_new_part_beside_an_ingested_one_is_refused_and_kept() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            old = await write_part(client, "job", 0, 3)
            await ingest(client, [old], sequence=1)
            new = await write_part(client, "job", 3, 3)
            with pytest.raises(InvalidRequestError, match=f"ledger {new} was never ingested"):
                await ingest(client, [old, new], sequence=2)
            await ingest(client, [new], sequence=2)
            assert await client.payloads() == numbered(0, 6)

    run(main)


def test_a_repetition_may_find_some_of_its_parts_trimmed_or_empty() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            parts = [await write_part(client, "job", at, count) for at, count in ((0, 3), (3, 0))]
            parts.append(await write_part(client, "job", 3, 3))
            await ingest(client, parts, remember=False)
            await client.logs.trim(NAME, Position(2, 0, 0))
            assert await cluster.ledgers() == parts[2:]
            await ingest(client, parts, remember=False)
            assert await client.payloads() == numbered(3, 3)

    run(main)
