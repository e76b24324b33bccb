"""Times of records, and reading from a time, when clocks were wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import TooManyJobsError, TooManyProducersError
from quire.log.leader.log import Log
from quire.log.manifest import jobs
from quire.log.manifest.ages import APART_MS
from quire.log.manifest.segment import Segment, SegmentEnd
from quire.log.manifest.times import TimeSearch, begin_ms, earliest_ms
from quire.log.reading.bounds import Bounds
from quire.log.records import producers
from quire.log.records.position import Position
from quire.log.records.producers import ProducerSequence
from tests.log.parts import ingest, write_part
from tests.support.log_cluster import NAME, Client, LogCluster, append_all, eventually, run

YEARS: Final = 10 * 365 * 86_400.0


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


async def from_time(client: Client, seconds: float) -> list[bytes]:
    """What a reader gets that begins at a time."""
    async with await client.logs.read(NAME, at(seconds)) as reader:
        return [record.payload async for record in reader]


@pytest.mark.parametrize(
    ("last_ms", "now_ms", "begun_ms"),
    [
        (5, 9, 9),
        (9, 5, 9),
        (APART_MS + 5, 5, APART_MS + 5),
        (APART_MS + 6, 5, 5),
    ],
)
def test_a_segment_goes_on_from_the_time_before_unless_clocks_contradict_each_other(
    last_ms: int, now_ms: int, begun_ms: int
) -> None:
    assert begin_ms(last_ms, now_ms) == begun_ms
    segment = Segment(2, 2, 1, now_ms)
    assert earliest_ms(segment, last_ms) <= begun_ms


def search(times: Sequence[tuple[int, ...]], wanted: int, now: int) -> int | None:
    """Search sealed segments with one record an entry; returns the index of the record found."""
    looking, first = TimeSearch(wanted, now), 0
    starts = []
    for number, inside in enumerate(times, 1):
        starts.append(first)
        first += len(inside)
        end = SegmentEnd(len(inside) - 1, 1, len(inside), 1, inside[-1])
        segment = Segment(number, number, number, inside[0], first, end)
        if looking.passes(segment):
            continue
        entry = next(place for place, each in enumerate(inside) if each >= wanted)
        before = inside[entry - 1] if entry else None
        if looking.look(segment, entry, before, inside[entry]):
            break
    found = looking.position
    return None if found is None else starts[found.segment - 1] + found.entry


HOUR: Final = 3_600_000
FAR: Final = 1000 * 8760 * HOUR


def hours(*numbers: float) -> tuple[int, ...]:
    return tuple(int(each * HOUR) for each in numbers)


@pytest.mark.parametrize(
    ("times", "wanted", "found"),
    [
        ([hours(1, 2), hours(3, 4)], 2.5, 2),
        ([hours(1, 2), hours(3, 4)], 0, 0),
        ([hours(1, 2), hours(3, 4)], 5, None),
        ([hours(1, 2), hours(9000, 9000), hours(3, 4)], 2.5, 2),
        ([hours(1, 2), hours(9000, 9000), hours(3, 4)], 3.5, 5),
        ([hours(1, 2), hours(9000), hours(9000, 9001), hours(3, 4)], 3.5, 6),
        ([hours(1, 2), hours(9000, 9000)], 3.5, 2),
        ([hours(1, 2), hours(2.5, 9000), hours(3, 4)], 3.5, 5),
        ([hours(1, 2), hours(2.5, 9000), hours(3, 4)], 2.7, 3),
        ([hours(5, 6), hours(1, 2), hours(7, 8)], 6.5, 2),
        ([hours(5, 6), hours(1, 2), hours(7, 8)], 7.5, 5),
        ([hours(5, 6), hours(1, 2)], 7, 2),
        ([hours(5, 6), hours(9000), hours(1), hours(7, 8)], 6.5, 2),
        ([hours(5, 6), hours(9000), hours(1), hours(7, 8)], 7.5, 5),
    ],
)
def test_a_search_takes_no_time_from_the_future_or_from_before_what_is_known(
    times: list[tuple[int, ...]], wanted: float, found: int | None
) -> None:
    assert search(times, int(wanted * HOUR), now=20 * HOUR) == found


SEGMENTS: Final = st.lists(
    st.tuples(
        st.lists(st.integers(1, 5), min_size=1, max_size=3),
        st.sampled_from([0, 0, 0, 9000 * HOUR, -9000 * HOUR, 2 * HOUR, -2 * HOUR]),
    ),
    min_size=1,
    max_size=8,
)


def world(drawn: list[tuple[list[int], int]]) -> tuple[list[list[int]], list[tuple[int, ...]]]:
    """The true times of records, and those that they bear."""
    true, borne, now = [], [], 10_000 * HOUR
    for steps, off in drawn:
        inside = []
        for step in steps:
            now += step * HOUR
            inside.append(now)
        true.append(inside)
        borne.append(tuple(each + off for each in inside))
    return true, borne


@given(SEGMENTS, st.integers(0, 60))
def test_no_record_with_a_right_time_is_left_out(
    drawn: list[tuple[list[int], int]], wanted: int
) -> None:
    true, borne = world(drawn)
    wanted = (10_000 + wanted) * HOUR
    found = search(borne, wanted, now=true[-1][-1])
    flat = [
        (index >= wanted, off == 0)
        for (_, off), inside in zip(drawn, true, strict=True)
        for index in inside
    ]
    left_out = flat if found is None else flat[:found]
    assert (True, True) not in left_out


@given(SEGMENTS, st.integers(0, 60))
def test_where_all_wrong_times_are_years_ahead_the_first_record_is_found(
    drawn: list[tuple[list[int], int]], wanted: int
) -> None:
    """Nothing older comes along, but records with a wrong time that stand right before it."""
    drawn = [(steps, 9000 * HOUR if off else 0) for steps, off in drawn]
    true, borne = world(drawn)
    wanted = (10_000 + wanted) * HOUR
    found = search(borne, wanted, now=true[-1][-1])
    flat = [
        (each >= wanted, off == 0)
        for (_, off), inside in zip(drawn, true, strict=True)
        for each in inside
    ]
    first = next((place for place, each in enumerate(flat) if each == (True, True)), len(flat))
    expected = first
    while expected and not flat[expected - 1][1]:
        expected -= 1
    assert (len(flat) if found is None else found) == expected


def test_a_leader_years_ahead_leaves_its_time_on_no_later_record() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await one_record(cluster, b"before")
            cluster.now += YEARS
            await one_record(cluster, b"ahead")
            cluster.now -= YEARS
            begun = cluster.now
            await one_record(cluster, b"after")
            await one_record(cluster, b"last")
            client = cluster.new_client()
            times = [each.timestamp_ms / 1000 for each in await client.read()]
            assert times == [1000.0, 1010.0 + YEARS, begun, begun + 10]
            assert await from_time(client, begun + 1) == [b"last"]
            assert await from_time(client, begun) == [b"ahead", b"after", b"last"], "it is undated"
            assert await from_time(client, 1000) == [b"before", b"ahead", b"after", b"last"]
            assert await from_time(client, begun + 11) == []

    run(main)


def test_a_leader_years_behind_hides_no_record() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            cluster.now = YEARS
            await one_record(cluster, b"before")
            cluster.now -= YEARS
            await one_record(cluster, b"behind")
            cluster.now += YEARS
            await one_record(cluster, b"after")
            client = cluster.new_client()
            assert await from_time(client, YEARS) == [b"before", b"behind", b"after"]
            assert await from_time(client, YEARS + 5) == [b"behind", b"after"], "it has no time"
            assert await from_time(client, YEARS + 21) == []

    run(main)


async def one_record(cluster: LogCluster, payload: bytes) -> None:
    """A leader appends a record; then ten seconds go by."""
    async with await cluster.new_client().open() as log:
        await log.append(payload)
    cluster.now += 10


def test_a_follower_at_the_end_gets_the_records_of_a_leader_years_behind() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            cluster.now = YEARS
            await one_record(cluster, b"before")
            client = cluster.new_client()
            async with await client.logs.read(NAME, at(cluster.now), follow=True) as reader:
                waiting = asyncio.ensure_future(anext(reader))
                await asyncio.sleep(1)
                assert not waiting.done()
                cluster.now = 5.0
                await one_record(cluster, b"behind")
                assert (await waiting).payload == b"behind"

    run(main)


def test_a_leader_whose_own_clock_is_put_right_begins_a_segment() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            cluster.now += YEARS
            client = cluster.new_client()
            async with await client.open() as log:
                await log.append(b"ahead")
                cluster.now -= YEARS
                await log.append(b"still ahead, as times of a segment do not go back")
                await rolled(log, 2)
                await log.append(b"right")
            times = [each.timestamp_ms / 1000 for each in await client.read()]
            assert times == [1000.0 + YEARS, 1000.0 + YEARS, 1000.0]

    run(main)


async def rolled(log: Log, number: int) -> None:
    await eventually(lambda: log._chain.current.number == number)


def test_ingested_parts_bear_the_time_of_their_ingest() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            cluster.now += YEARS
            await one_record(cluster, b"ahead")
            cluster.now = 2000.0
            part = await write_part(client, "job", 0, 3)
            await ingest(client, [part])
            assert [each.timestamp_ms for each in await client.read()][1:] == [2_000_000] * 3

    run(main)


def test_a_snapshot_takes_records_by_the_times_that_they_bear() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await one_record(cluster, b"0")
            cluster.now += YEARS
            await one_record(cluster, b"1")
            cluster.now -= YEARS
            async with await cluster.new_client().open() as log:
                await append_all(log, [b"2"])
                cluster.now += 10
                await append_all(log, [b"3"])
                await log.roll()
                await append_all(log, [b"4"])
            client = cluster.new_client()

            async def within(first: float, end: float) -> list[bytes]:
                bounds = Bounds(first_ms=int(1000 * first), end_ms=int(1000 * end))
                return [
                    payload
                    for span in await client.logs.snapshot(NAME, bounds=bounds)
                    async for piece in client.logs.read_span(span)
                    for payload in piece.payloads()
                ]

            assert await within(0, 1020) == [b"0"]
            assert await within(1000, 1030) == [b"0", b"2"]
            assert await within(1020, YEARS) == [b"2", b"3", b"4"]
            assert await within(YEARS, 2 * YEARS) == [b"1"]
            assert Position(1, 0, 0) == (await client.read())[0].position

    run(main)


def test_leaders_say_that_clocks_contradict_each_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await one_record(cluster, b"before")
            cluster.now -= 10
            caplog.clear()
            await one_record(cluster, b"near")
            cluster.now -= 10
            assert "clock" not in caplog.text
            cluster.now += YEARS
            await one_record(cluster, b"ahead")
            assert "was put forward by" in caplog.text
            cluster.now -= YEARS
            caplog.clear()
            await one_record(cluster, b"after")
            assert "after this leader's clock" in caplog.text
            assert "was put back by" in caplog.text

    run(main)


def test_a_leader_years_ahead_forgets_no_producer_and_no_job_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A number that was given would be taken for a new one, and its record written twice."""
    monkeypatch.setattr(producers, "FORGOTTEN_MAX", 1)
    monkeypatch.setattr(jobs, "FORGOTTEN_MAX", 1)

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await client.logs.create(NAME, {"jobs_max": "1", "producers_max": "1"})
            for name in ("one", "two"):
                await ingest(client, [await write_part(client, name, 0, 1)], name)
                async with await client.open() as log:
                    await log.append(b"x", producer_sequence=ProducerSequence(name, 1))
            cluster.now += YEARS
            part = await write_part(client, "three", 0, 1)
            with pytest.raises(TooManyJobsError):
                await ingest(client, [part], "three")
            async with await client.open() as log:
                with pytest.raises(TooManyProducersError):
                    await log.append(b"x", producer_sequence=ProducerSequence("three", 1))

    run(main)
