"""Numbers of Kafka's idempotent producers: taken in order, whichever gateway gets them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

import quire
from quire import Log, NewRecord
from quire.errors import ForgottenProducerError
from quire.gateway.kafka import producing
from quire.gateway.kafka.numbers import REMEMBERED_MAX, SEQUENCES, NextNumbers, producer_name
from quire.gateway.kafka.records import Produced
from quire.testing.cluster import MemoryCluster


def batch(sequence: int, count: int = 1, epoch: int = 0, producer: int = 9) -> Produced:
    return Produced((NewRecord(b"r"),) * count, producer, epoch, sequence)


def after(last: int | None = None) -> NextNumbers:
    """What follows a number that the log has."""
    return NextNumbers(lambda _: last)


def test_a_batch_continues_its_producers_last_one_or_repeats_one() -> None:
    numbers = after()
    assert numbers.take(batch(3)) is None, "its first has the number 0"
    assert numbers.take(batch(0, count=3)) == 2
    assert numbers.take(batch(4)) is None
    assert numbers.take(batch(3)) == 3
    assert numbers.take(batch(0, count=3)) == 2, "a repetition"
    assert numbers.take(batch(4)) == 4, "which moves nothing"
    assert numbers.take(batch(7, producer=8)) is None


def test_a_batch_with_old_and_new_records_is_out_of_order() -> None:
    numbers = after()
    assert numbers.take(batch(0, count=10)) == 9
    assert numbers.take(batch(5, count=10)) is None
    assert numbers.take(batch(0, count=20)) is None
    assert numbers.take(batch(10, count=10)) == 19, "it moved nothing"


def test_a_new_epoch_begins_at_0() -> None:
    numbers = after()
    assert numbers.take(batch(0, count=5)) == 4
    assert numbers.take(batch(5, epoch=1)) is None
    assert numbers.take(batch(0, epoch=1)) == 0


def test_after_a_failure_its_repetition_comes_first() -> None:
    numbers = after(4)
    for number in (5, 6, 7):
        assert numbers.take(batch(number)) == number
    for number in (5, 6, 7):  # all of them, in any order
        numbers.fail(batch(number))
    assert numbers.take(batch(6)) is None
    assert numbers.take(batch(5)) == 5


def test_the_first_batch_that_a_writer_sees_is_held_against_the_log() -> None:
    assert after(4).take(batch(6)) is None
    assert after(4).take(batch(5)) == 5
    assert after(4).take(batch(2, count=2)) == 3, "a repetition, which the log knows"


def test_numbers_of_a_producer_come_round_and_those_of_the_log_do_not() -> None:
    numbers = after(SEQUENCES - 2)
    assert numbers.take(batch(1)) is None
    assert numbers.take(batch(SEQUENCES - 1, count=2)) == SEQUENCES
    assert numbers.take(batch(1)) == SEQUENCES + 1
    assert numbers.take(batch(SEQUENCES - 1, count=2)) == SEQUENCES, "a repetition"
    assert numbers.take(batch(2 + SEQUENCES // 2)) is None


@given(st.lists(st.integers(1, 5), min_size=1, max_size=20), st.integers(0, 2 * SEQUENCES))
def test_batches_in_order_have_numbers_in_order(counts: list[int], begun: int) -> None:
    numbers, following = after(begun - 1 if begun else None), begun
    for count in counts:
        given_batch = batch(following % SEQUENCES, count=count)
        following += count
        assert numbers.take(given_batch) == following - 1
        assert numbers.take(batch((following + 1) % SEQUENCES)) is None


def test_what_is_remembered_is_bounded_and_looked_up_again() -> None:
    asked: list[str] = []

    def last(name: str) -> int:
        asked.append(name)
        return 6

    numbers = NextNumbers(last)
    for producer in range(REMEMBERED_MAX + 1):
        assert numbers.take(batch(7, producer=producer)) == 7
    assert numbers.take(batch(8, producer=REMEMBERED_MAX)) == 8
    assert numbers.take(batch(7, producer=0)) == 7, "the log said 6"
    assert asked.count(producer_name(batch(7, producer=0))) == 2


class Writers:
    """The writer of one log at a time, as `Owners` has it."""

    def __init__(self, client: quire.Client) -> None:
        self._client = client
        self.log: Log | None = None

    async def take_over(self) -> None:
        self.log = await self._client.open_log("orders")

    @asynccontextmanager
    async def writer(self, name: str) -> AsyncIterator[Log | None]:
        yield self.log


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests carry batches as they are."""
    monkeypatch.setattr(producing, "decode_batches", lambda batches, _: batches)
    monkeypatch.setattr(producing, "bytes", lambda batches: batches, raising=False)


@pytest.mark.usefixtures("plain")
async def test_gateways_that_write_in_turn_take_each_batch_once_and_in_order() -> None:
    def request(one: Produced) -> Any:
        part = SimpleNamespace(index=0, records=[one])
        data = [SimpleNamespace(name="orders", partition_data=[part])]
        return SimpleNamespace(topic_data=data, acks=-1)

    with MemoryCluster() as made:
        async with quire.connect(made.store_uri) as client:
            owners = Writers(client)
            broker: Any = SimpleNamespace(
                owners=owners, check=lambda *_: None, charge=lambda *_: None
            )
            one, other = producing.Producing(), producing.Producing()

            async def produce(work: producing.Producing, given_batch: Produced) -> Any:
                session: Any = None
                answer = await work.produce(broker, session, request(given_batch))
                assert answer is not None
                (found,) = answer["responses"][0]["partition_responses"]
                return found["error_code"], found["base_offset"]

            early = ErrorCode.out_of_order_sequence_number, -1
            await owners.take_over()
            assert await produce(one, batch(0, count=2)) == (ErrorCode.none, 0)
            await owners.take_over()
            assert await produce(other, batch(3)) == early, "2 is still on its way"
            assert await produce(other, batch(2)) == (ErrorCode.none, 2)
            assert await produce(other, batch(3)) == (ErrorCode.none, 3)
            assert await produce(other, batch(0, count=2)) == (ErrorCode.none, 0), "a repetition"
            await owners.take_over()
            assert await produce(one, batch(5)) == early
            assert await produce(one, batch(4)) == (ErrorCode.none, 4), "what the other one left"


async def test_a_log_says_where_a_producer_is() -> None:
    with MemoryCluster() as made:
        async with quire.connect(made.store_uri) as client:
            options = quire.LogOptions(producers_max=1)
            async with await client.open_log("orders", options) as log:
                assert log.last_sequence("shop") is None
                number = quire.ProducerSequence("shop", 7)
                queued = await log.submit(b"a", producer_sequence=number)
                assert log.last_sequence("shop") == 7, "queued, not yet confirmed"
                await queued
            async with await client.open_log("orders", options) as log:
                assert log.last_sequence("shop") == 7
                await log.append(b"b", producer_sequence=quire.ProducerSequence("other", 1))
                with pytest.raises(ForgottenProducerError, match="the last sequence of producer"):
                    log.last_sequence("shop")
