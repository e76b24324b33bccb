"""Conditional and idempotent appends: what is refused, what is answered again, what is restored."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import quire.log.records.producers as producers_module
from quire.errors import (
    CorruptEntryError,
    ForgottenProducerError,
    InvalidRequestError,
    SequenceConflictError,
    TailConflictError,
    TooManyProducersError,
)
from quire.log.records.batch import BATCH_BYTES_MAX, Compression, decode_batch, encode_batch
from quire.log.records.position import Appended
from quire.log.records.producers import (
    STAMPS,
    WINDOW,
    Producers,
    ProducerSequence,
    decode_columns,
    decode_stamps,
    encode_columns,
    encode_stamps,
)
from tests.support.log_cluster import LogCluster, append_all, eventually, numbered, run
from tests.support.memory_cluster import down
from tests.support.seeds import seeds

names = st.text(min_size=1, max_size=20)
stamps = st.none() | st.builds(ProducerSequence, names, st.integers(0, 2**63 - 1))


@given(st.lists(stamps, min_size=1, max_size=30))
def test_stamps_come_back_and_cut_ones_are_refused(found: list[ProducerSequence | None]) -> None:
    data = encode_stamps(found)
    assert decode_stamps(data, len(found)) == found
    for end in range(0, len(data), 7):
        with pytest.raises(ValueError, match=r"stamp|columns|codec"):
            decode_stamps(data[:end], len(found))


@given(st.lists(st.tuples(names, st.integers(1, 5)), max_size=60))
def test_a_snapshot_comes_back(appends: list[tuple[str, int]]) -> None:
    producers = Producers()
    for number, (name, count) in enumerate(appends):
        producers.note(ProducerSequence(name, number), number * 10, count)
    assert Producers.decode(producers.encode()) == producers


def test_the_producer_that_wrote_longest_ago_is_forgotten_first() -> None:
    producers = Producers()
    producers.obey(2, 60.0, 5000)
    for number, name in enumerate(["early", "late", "early", "new"]):
        producers.note(ProducerSequence(name, number), number, 1)
    assert producers.find(ProducerSequence("early", 2)) is not None
    with pytest.raises(ForgottenProducerError):
        producers.find(ProducerSequence("late", 1))


def test_what_a_copy_notes_is_unknown_to_the_original() -> None:
    """What is sent and not confirmed is noted in a copy, which is thrown away when it fails."""
    producers = Producers()
    producers.note(ProducerSequence("p", 1), 0, 1)
    copy = producers.copy()
    assert copy == producers
    copy.note(ProducerSequence("p", 2), 1, 1)
    copy.note(ProducerSequence("q", 1), 2, 1)
    assert producers.find(ProducerSequence("p", 2)) is None
    assert producers.find(ProducerSequence("q", 1)) is None
    assert copy.find(ProducerSequence("p", 2)) is not None


def test_a_clock_that_goes_back_does_not_lengthen_a_memory() -> None:
    producers = Producers()
    for now in (9_000, 5_000):
        producers.obey(1, 60.0, now)
    producers.note(ProducerSequence("p", 1), 0, 1)
    producers.note(ProducerSequence("q", 1), 1, 1)
    assert list(producers._forgotten.values()) == [9]


def test_a_time_after_the_present_counts_from_now_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older programs wrote the wall clock's time, which is far above what a log counts."""
    monkeypatch.setattr(producers_module, "FORGOTTEN_MAX", 1)
    producers = Producers()
    producers.obey(1, 60.0, 1_700_000_000_000)
    producers.note(ProducerSequence("old", 1), 0, 1)
    producers.note(ProducerSequence("p", 1), 1, 1)
    read = Producers.decode(producers.encode(), producers.encode_forgotten())
    read.obey(1, 60.0, 5_000)
    with pytest.raises(TooManyProducersError):
        read.find(ProducerSequence("new", 1))
    read.obey(1, 60.0, 64_000)
    with pytest.raises(TooManyProducersError):
        read.find(ProducerSequence("new", 1))
    read.obey(1, 60.0, 65_000)
    assert read.find(ProducerSequence("new", 1)) is None


def test_a_forgotten_producer_is_refused_also_by_what_is_read_again() -> None:
    producers = Producers()
    producers.obey(2, 60.0, 5000)
    for number in range(3):
        producers.note(ProducerSequence(f"p{number}", 1), number, 1)
    read = Producers.decode(producers.encode(), producers.encode_forgotten())
    assert read == producers
    for memory in (producers, producers.copy(), read):
        for sequence in (1, 2):
            with pytest.raises(ForgottenProducerError, match="forgotten this producer"):
                memory.find(ProducerSequence("p0", sequence))
        assert memory.find(ProducerSequence("p1", 1)) == (1, 1, 1)
        assert memory.find(ProducerSequence("new", 1)) is None
    for number in range(2, 3 + WINDOW):
        producers.note(ProducerSequence("p1", number), number, 1)
    with pytest.raises(SequenceConflictError, match="forgotten"):
        producers.find(ProducerSequence("p1", 1))


def test_a_new_producer_waits_until_the_oldest_fingerprint_may_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers_module, "FORGOTTEN_MAX", 2)
    producers = Producers()
    producers.obey(1, 60.0, 5000)
    for number in range(3):
        producers.note(ProducerSequence(f"p{number}", 1), number, 1)
    with pytest.raises(TooManyProducersError, match="producers_max"):
        producers.find(ProducerSequence("p3", 1))
    producers.obey(1, 60.0, 65_000)
    assert producers.find(ProducerSequence("p3", 1)) is None
    producers.note(ProducerSequence("p3", 1), 3, 1)
    with pytest.raises(ForgottenProducerError):
        producers.find(ProducerSequence("p1", 1))


async def test_a_stamp_is_not_written_again_after_as_many_others_as_are_remembered(
    cluster: LogCluster,
) -> None:
    client = cluster.new_client()
    async with await client.open(producers_max=2) as log:
        for name in ("p0", "p1", "p2"):
            await log.append(name.encode(), producer_sequence=ProducerSequence(name, 1))
        with pytest.raises(ForgottenProducerError):
            await log.append(b"p0", producer_sequence=ProducerSequence("p0", 1))
    async with await client.open(producers_max=2) as log:
        with pytest.raises(ForgottenProducerError):
            await log.append(b"p0", producer_sequence=ProducerSequence("p0", 1))
        await log.append(b"p3", producer_sequence=ProducerSequence("p3", 1))
    assert await client.payloads() == [b"p0", b"p1", b"p2", b"p3"]


@pytest.mark.parametrize("compression", list(Compression))
def test_a_batch_with_columns_keeps_its_payloads_in_one_piece(compression: Compression) -> None:
    records = [b"abc" * 50, b"", b"de" * 99]
    columns = encode_columns(
        {STAMPS: encode_stamps([None, ProducerSequence("p", 7), None]), 200: b"unknown"}
    )
    encoded = encode_batch(
        records,
        first_offset=5,
        epoch=1,
        timestamp_ms=9,
        compression=compression,
        columns=columns,
    )
    batch = decode_batch(encoded, 1, 0)
    assert batch.payloads() == records
    offsets, data = batch.arrow_buffers()
    assert [bytes(data[a:b]) for a, b in pairwise(offsets)] == records
    assert decode_stamps(decode_columns(batch.columns)[STAMPS], 3)[1] == ProducerSequence("p", 7)


def test_columns_that_do_not_add_up_are_refused() -> None:
    encoded = bytearray(
        encode_batch([b"abc"], first_offset=0, epoch=1, timestamp_ms=0, columns=b"12345")
    )
    encoded[40] = 200
    with pytest.raises(CorruptEntryError, match="columns"):
        decode_batch(bytes(encoded), 1, 0)
    encoded[40] = 0
    with pytest.raises(CorruptEntryError, match="columns"):
        decode_batch(bytes(encoded), 1, 0)


async def test_a_conditional_append_gets_the_offset_it_expects_or_is_not_written(
    cluster: LogCluster,
) -> None:
    log = await cluster.new_client().open()
    await append_all(log, numbered(0, 3))
    assert log.next_offset == 3
    await log.append(b"3", expected_offset=3)
    with pytest.raises(TailConflictError) as caught:
        await log.append_many([b"x", b"y"], expected_offset=3)
    assert (caught.value.expected, caught.value.actual) == (3, 4)
    rivals = [
        asyncio.create_task(log.append(b"%d" % each, expected_offset=4)) for each in range(4, 8)
    ]
    outcomes = await asyncio.gather(*rivals, return_exceptions=True)
    assert [isinstance(each, Appended) for each in outcomes] == [True, *[False] * 3]
    await log.close()
    records = await cluster.new_client().read()
    assert [each.payload for each in records] == numbered(0, 5)


async def test_the_condition_is_decided_when_there_is_room(cluster: LogCluster) -> None:
    log = await cluster.new_client().open(records_in_flight_max=2)
    first = [await log.submit(b"0"), await log.submit(b"1")]
    waiting = asyncio.create_task(log.submit(b"2", expected_offset=2))
    late = asyncio.create_task(log.submit(b"x", expected_offset=2))
    more = asyncio.create_task(log.submit(b"3"))
    await asyncio.gather(*first)
    await (await waiting)
    with pytest.raises(TailConflictError):
        await late
    await (await more)
    await log.close()
    assert await cluster.new_client().payloads() == numbered(0, 4)


async def test_a_duplicate_is_answered_with_the_originals_position(cluster: LogCluster) -> None:
    log = await cluster.new_client().open()
    futures = [await log.submit(b"0", producer_sequence=ProducerSequence("p", 1)) for _ in range(3)]
    mixed = asyncio.create_task(log.append_many([b"0"], producer_sequence=ProducerSequence("p", 1)))
    positions = [await future for future in futures]
    assert positions == [positions[0]] * 3
    assert await mixed == [positions[0]], "answered as it was asked, not as the original"
    many = await log.append_many([b"1", b"2"], producer_sequence=ProducerSequence("p", 2))
    assert await log.append(b"0", producer_sequence=ProducerSequence("p", 1)) == positions[0]
    assert await log.append_many([b"1", b"2"], producer_sequence=ProducerSequence("p", 2)) == many
    with pytest.raises(InvalidRequestError, match="2 records"):
        await log.append(b"1", producer_sequence=ProducerSequence("p", 2))
    await log.append(b"3", producer_sequence=ProducerSequence("p", 9))
    with pytest.raises(SequenceConflictError):
        await log.append(b"4", producer_sequence=ProducerSequence("p", 5))
    with pytest.raises(InvalidRequestError, match="producer"):
        await log.append(b"4", producer_sequence=ProducerSequence("", 5))
    await log.close()
    assert await cluster.new_client().payloads() == numbered(0, 4)


@pytest.mark.parametrize("seed", seeds(10, 2))
def test_a_duplicate_is_answered_before_the_original_is_announced(seed: int) -> None:
    """The leader knows that it was acknowledged, the bookies not yet."""

    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(batch_records=2)
            for number in range(0, 60, 6):
                stamps = [ProducerSequence("p", each) for each in range(number, number + 6)]
                futures = [
                    await log.submit(b"x", producer_sequence=producer_sequence)
                    for producer_sequence in stamps
                ]
                positions = [await future for future in futures]
                found = [
                    await log.append(b"x", producer_sequence=producer_sequence)
                    for producer_sequence in reversed(stamps)
                ]
                assert found[::-1] == positions
                if number % 12:
                    await log.roll()
            await log.close()

    run(main, seed)


@pytest.mark.parametrize("crash", [False, True])
async def test_stamps_are_remembered_over_take_overs_rolls_and_trims(
    cluster: LogCluster, crash: bool
) -> None:
    log = await cluster.new_client().open(batch_records=3)
    at = {}
    for number in range(30):
        producer_sequence = ProducerSequence(f"p{number % 3}", number)
        at[producer_sequence] = await log.append(
            b"%d" % number, producer_sequence=producer_sequence
        )
        await log.append(b"-")
        if number == 15:
            await log.roll()
    await log.trim(at[ProducerSequence("p0", 15)].position)
    for _ in range(3):
        if crash:
            log.abandon()
        else:
            await log.close()
        log = await cluster.new_client().open(batch_records=3)
        for producer_sequence in (
            ProducerSequence("p0", 27),
            ProducerSequence("p1", 28),
            ProducerSequence("p2", 29),
            ProducerSequence("p0", 18),
        ):
            assert (
                await log.append(b"again", producer_sequence=producer_sequence)
                == at[producer_sequence]
            )
        with pytest.raises(SequenceConflictError):
            await log.append(b"again", producer_sequence=ProducerSequence("p2", 28))
        await log.append(b"+")
    await log.close()
    assert b"again" not in await cluster.new_client().payloads(
        at[ProducerSequence("p0", 18)].position
    )


@pytest.mark.parametrize("kept", [1, 3])
async def test_a_trim_within_a_segment_leaves_the_memory_readable(
    cluster: LogCluster, kept: int
) -> None:
    """The snapshot is in the segment's first batch, where no reader gets any more."""
    log = await cluster.new_client().open(batch_records=2)
    at = [
        await log.append(b"%d" % each, producer_sequence=ProducerSequence("p", each))
        for each in range(6)
    ]
    await log.trim(at[-kept].position)
    await log.close()
    log = await cluster.new_client().open()
    for number in range(6):
        await log.append(b"again", producer_sequence=ProducerSequence("p", number))
    await log.append(b"new", producer_sequence=ProducerSequence("p", 6))
    await log.close()
    assert await cluster.new_client().payloads() == [*numbered(6 - kept, kept), b"new"]


def test_an_append_of_unknown_outcome_is_in_the_log_once_whatever_recovery_found() -> None:
    async def main(survivors: int) -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            await log.append(b"0", producer_sequence=ProducerSequence("p", 0))
            for bookie in list(cluster.bookies.values())[survivors:]:
                bookie.before = down("add")
            future = await log.submit(b"1", producer_sequence=ProducerSequence("p", 1))
            await eventually(lambda: True)
            await asyncio.sleep(0.1)
            log.abandon()
            for bookie in cluster.bookies.values():
                bookie.before = down("nothing")
            assert future.exception() is not None
            log = await cluster.new_client().open()
            await log.append(b"1", producer_sequence=ProducerSequence("p", 1))
            await log.close()
            assert await cluster.new_client().payloads() == [b"0", b"1"]

    for survivors in (0, 1):
        run(lambda survivors=survivors: main(survivors))  # type: ignore[misc]


async def test_stamped_records_survive_a_ledger_that_fails(cluster: LogCluster) -> None:
    log = await cluster.new_client().open(batch_records=2)
    await log.append(b"0", producer_sequence=ProducerSequence("p", 0))
    for bookie in cluster.bookies.values():
        bookie.before = down("add")
    futures = [
        await log.submit(b"%d" % each, producer_sequence=ProducerSequence("p", each))
        for each in range(1, 6)
    ]
    again = await log.submit(b"3", producer_sequence=ProducerSequence("p", 3))
    await asyncio.sleep(3.5)
    for bookie in cluster.bookies.values():
        bookie.before = down("nothing")
    positions = [await each for each in futures]
    assert await again == positions[2]
    log.abandon()
    log = await cluster.new_client().open()
    assert await log.append(b"3", producer_sequence=ProducerSequence("p", 3)) == positions[2]
    await log.close()
    assert await cluster.new_client().payloads() == numbered(0, 6)


async def test_the_largest_record_still_fits_beside_stamps(cluster: LogCluster) -> None:
    log = await cluster.new_client().open()
    await log.append(b"0", producer_sequence=ProducerSequence("p" * 128, 0))
    size = BATCH_BYTES_MAX - 4 - 64
    futures = [await log.submit(bytes(each)) for each in (1, size, 1)]
    stamped = await log.submit(bytes(size - 140), producer_sequence=ProducerSequence("p" * 128, 1))
    for future in (*futures, stamped):
        await future
    await log.close()


async def test_a_log_trimmed_inside_the_segment_of_the_snapshot_can_be_taken_over(
    cluster: LogCluster,
) -> None:
    client = cluster.new_client()
    log = await client.open(batch_records=1)
    places = [
        await log.append(b"%d" % each, producer_sequence=ProducerSequence("p", each))
        for each in range(6)
    ]
    # The snapshot is before the trim, in a segment that stays.
    await log.trim(places[3].position)  # the snapshot is in front of it, in a segment that stays
    log.abandon()
    other = await cluster.new_client().open(open_timeout=5.0)
    assert await other.append(b"4", producer_sequence=ProducerSequence("p", 4)) == places[4]
    await other.append(b"6", producer_sequence=ProducerSequence("p", 6))
    await other.close()
    assert await client.payloads() == numbered(3, 4)
