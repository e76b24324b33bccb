"""How much of the records at hand goes into an answer."""

from __future__ import annotations

from typing import cast

from quire.client import Client
from quire.gateway.kafka.fetching import TopicReading
from quire.gateway.kafka.records import RECORD_BYTES
from quire.gateway.kafka.served import ServedBatches
from quire.log.records.attributes import NewRecord
from tests.gateway.kafka.batches import batch_of


def test_an_answer_has_one_record_and_more_as_long_as_they_fit() -> None:
    reading = TopicReading(cast(Client, None), ServedBatches(), "t", 8, 8)
    records = [NewRecord(bytes(100), key=b"k" * size) for size in range(6)]
    reading.put(batch_of(*records, slot=1))
    assert reading.end == 13
    one = RECORD_BYTES + 100
    for room, offsets in (
        (0, [8]),
        (2 * one + 5, [9, 10]),
        (one, [11]),
        (one + 5, [12]),
        (one, []),
    ):
        assert [each.offset for each in reading.take(room)] == offsets
    assert reading.next == 13
