"""An append that cannot be, or a defect behind it, ends no other append and leaves none hanging."""

from __future__ import annotations

import asyncio
import logging
from enum import StrEnum
from typing import Any

import pytest

from quire.errors import EntryTooLargeError, InvalidRequestError, QuireError, TailConflictError
from quire.log.leader import accumulator, segments
from quire.log.leader.accumulator import MARKED_BYTES_MAX
from quire.log.records.batch import BATCH_BYTES_MAX
from quire.log.records.position import Position
from quire.log.records.producers import ProducerSequence
from tests.support.log_cluster import LogCluster, run
from tests.support.memory_cluster import slowly

BAD_TERMS: Any = [
    {"producer_sequence": ProducerSequence("p", 1.5)},  # type: ignore[arg-type]
    {"producer_sequence": ProducerSequence("p", True)},
    {"producer_sequence": ProducerSequence("p", 2**63)},
    {"producer_sequence": ProducerSequence("\udcff", 1)},
    {"producer_sequence": ProducerSequence(b"p", 1)},  # type: ignore[arg-type]
    {"producer_sequence": ("p", 1)},
    {"txid": 1.0},
    {"txid": True},
    {"expected_offset": 1.0},
    {"expected_offset": -1},
    {"expected_offset": "1"},
]


@pytest.mark.parametrize("terms", BAD_TERMS, ids=str)
def test_terms_that_are_none_are_refused_at_the_call(terms: dict[str, Any]) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            innocent = asyncio.create_task(
                log.append(b"a", producer_sequence=ProducerSequence("q", 1))
            )
            with pytest.raises(InvalidRequestError):
                await log.append(b"bad", **terms)
            with pytest.raises(InvalidRequestError):
                await log.append_many([b"bad", b"bad"], **terms)
            assert await innocent == (Position(1, 0, 0), 0)
            assert await log.append(b"b") == (Position(1, 1, 0), 1)
            await log.close()

    run(main)


def test_a_record_that_waited_is_refused_when_it_does_not_fit_beside_new_columns() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(records_in_flight_max=2)
            for bookie in cluster.bookies.values():
                bookie.before = slowly(0.5)
            for payload in (b"a", b"b"):
                await log.submit(payload)
            stamped = asyncio.create_task(
                log.append(b"s", producer_sequence=ProducerSequence("p", 1))
            )
            await asyncio.sleep(0)
            large = asyncio.create_task(log.append(bytes(BATCH_BYTES_MAX - 4)))
            later = asyncio.create_task(log.append(b"later"))
            with pytest.raises(EntryTooLargeError):
                await large
            assert await stamped < await later
            await log.close()

    run(main)


def test_records_with_marks_that_fill_a_batch_to_its_end_go_into_two() -> None:
    half = (BATCH_BYTES_MAX - 2 * MARKED_BYTES_MAX) // 2

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(batch_bytes=BATCH_BYTES_MAX - 8, batch_records=2)
            appends = [
                log.append(
                    bytes(half), producer_sequence=ProducerSequence(str(each) * 128, 1), txid=each
                )
                for each in (1, 2)
            ]
            places = await asyncio.gather(*appends)
            assert places == [(Position(1, 0, 0), 0), (Position(1, 1, 0), 1)]
            await log.close()

    run(main)


def test_any_number_of_appends_in_line_may_be_refused_at_once() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(records_in_flight_max=2)
            for bookie in cluster.bookies.values():
                bookie.before = slowly(0.5)
            for payload in (b"a", b"b"):
                await log.submit(payload)
            waiting = [
                asyncio.create_task(log.append(b"no", expected_offset=0)) for _ in range(2000)
            ]
            last = asyncio.create_task(log.append(b"c"))
            told = await asyncio.gather(*waiting, return_exceptions=True)
            assert {type(each) for each in told} == {TailConflictError}
            assert (await log.append(b"d")).position.segment == (await last).position.segment == 1
            await log.close()
            assert await cluster.new_client().payloads() == [b"a", b"b", b"c", b"d"]

    run(main)


def fail(*_: Any, **options: Any) -> None:
    raise RuntimeError("a defect")


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (accumulator, "encode_batch"),
        (segments.LiveSegment, "note_sent"),
        (segments.LiveSegment, "note_confirmed"),
        (accumulator.Parcel, "confirm"),
    ],
)
def test_whoever_waits_hears_of_a_defect_in_the_pump(
    place: Any, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            await log.append(b"a")
            with monkeypatch.context() as patch:
                patch.setattr(place, name, fail)
                told = await asyncio.wait_for(
                    asyncio.gather(*map(log.append, [b"b", b"c"]), return_exceptions=True), 60
                )
            assert all(isinstance(each, QuireError) for each in told), told
            assert "a defect" in str(told[0])

    with caplog.at_level(logging.CRITICAL, "quire.log.leader.log"):
        run(main)


def test_a_roll_takes_what_was_submitted_a_moment_before() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            future = await log.submit(b"a")
            await log.roll()
            assert await future == (Position(1, 0, 0), 0)
            assert [bool(each.end) for each in (await client.manifest()).segments] == [True, False]
            await log.roll()
            assert await log.append(b"b") == (Position(2, 0, 0), 1)
            await log.close()

    run(main)


def test_a_producer_may_be_named_by_a_kind_of_text() -> None:
    class Name(StrEnum):
        ONE = "one"

    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            place = await log.append(b"a", producer_sequence=ProducerSequence(Name.ONE, 1))
            assert await log.append(b"a", producer_sequence=ProducerSequence("one", 1)) == place
            await log.close()

    run(main)
