"""Produce: batches of producers, appended as they are sent.

A batch is appended as a whole, and acknowledged once it is certain, whatever `acks` says; with
`acks=0` the answer is left out. The number of a batch of an idempotent producer is kept in the log
with its records: a repetition is answered with the first offset, also by another gateway.

Kafka's clients have several batches under way, and repeat failed ones. A batch that comes
before the repetition of an earlier one would reverse their order. So only the batch that continues
the producer's last one in the log is taken (numbers.py).
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any
from weakref import WeakKeyDictionary

from kio.schema.errors import ErrorCode

from quire.errors import ForgottenProducerError, InvalidRequestError, QuireError
from quire.gateway.answers import GatewayError
from quire.gateway.kafka.broker import PARTITION, Broker, KafkaSession, is_topic
from quire.gateway.kafka.errors import code_of
from quire.gateway.kafka.messages import Fields
from quire.gateway.kafka.numbers import NextNumbers, producer_name
from quire.gateway.kafka.records import decode_batches
from quire.gateway.kafka.unpacking import Allowance
from quire.gateway.quotas import Direction
from quire.log.leader.log import Log
from quire.log.records.producers import ProducerSequence
from quire.rights.roles import Action


class Producing:
    """Answers Produce and InitProducerId."""

    def __init__(self) -> None:
        self._numbers: WeakKeyDictionary[Log, NextNumbers] = WeakKeyDictionary()
        """By writer: another gateway may have written between two writers of a log."""

    async def begin(self, broker: Broker, session: KafkaSession, request: Any) -> Fields:
        """Answer InitProducerId: a number that no other producer has."""
        if request.transactional_id is not None:
            code = ErrorCode.transactional_id_authorization_failed
            return {"error_code": code, "producer_id": -1, "producer_epoch": -1}
        number = secrets.randbits(62)
        return {"error_code": ErrorCode.none, "producer_id": number, "producer_epoch": 0}

    async def produce(self, broker: Broker, session: KafkaSession, request: Any) -> Fields | None:
        """Append the batches of a request.

        Topics do not wait for each other: else a later request would overtake this one in a topic
        that waits behind a slow one.
        """
        allowance = Allowance()
        answers = await asyncio.gather(
            *(self._topic(broker, session, each, allowance) for each in request.topic_data)
        )
        return None if request.acks == 0 else {"responses": list(answers)}

    async def _topic(
        self, broker: Broker, session: KafkaSession, topic: Any, allowance: Allowance
    ) -> Fields:
        partitions = [
            await self._partition(broker, session, topic.name, each, allowance)
            for each in topic.partition_data
        ]
        return {"name": topic.name, "partition_responses": partitions}

    async def _partition(
        self, broker: Broker, session: KafkaSession, name: str, data: Any, allowance: Allowance
    ) -> Fields:
        fields: dict[str, Any] = {"index": data.index, "base_offset": -1, "record_errors": []}
        payload = bytes(data.records or b"")
        try:
            broker.check(session, Action.APPEND, name)
            if data.index != PARTITION or not is_topic(name):
                return fields | {"error_code": ErrorCode.unknown_topic_or_partition}
            offset = await self._append(broker, session, name, payload, allowance)
        except ForgottenProducerError as error:
            code = ErrorCode.unknown_producer_id
            return fields | {"error_code": code, "error_message": str(error)}
        except InvalidRequestError as error:
            code = code_of(error)
            if code is ErrorCode.invalid_request:
                code = ErrorCode.invalid_record
            return fields | {"error_code": code, "error_message": str(error)}
        except (QuireError, GatewayError) as error:
            return fields | {"error_code": code_of(error), "error_message": str(error)}
        if offset is None:
            return fields | {"error_code": ErrorCode.out_of_order_sequence_number}
        return fields | {"error_code": ErrorCode.none, "base_offset": offset}

    async def _append(
        self, broker: Broker, session: KafkaSession, name: str, payload: bytes, allowance: Allowance
    ) -> int | None:
        """Return the offset of the first record; None for a batch that comes too early."""
        batches = list(decode_batches(payload, allowance))
        if not batches:
            raise InvalidRequestError("a request has no batch")
        count = sum(len(each.records) for each in batches)
        broker.charge(session, Direction.APPEND, len(payload), count)
        offsets: list[int] = []
        async with broker.owners.writer(name) as log:
            for batch in batches:
                if batch.producer < 0:
                    places = await log.append_many(batch.records)
                else:
                    numbers = self._numbers_of(log)
                    number = numbers.take(batch)
                    if number is None:
                        return None
                    sequence = ProducerSequence(producer_name(batch), number)
                    try:
                        places = await log.append_many(batch.records, producer_sequence=sequence)
                    except QuireError:
                        numbers.fail(batch)
                        raise
                offsets.append(places[0].offset)
        return offsets[0]

    def _numbers_of(self, log: Log) -> NextNumbers:
        numbers = self._numbers.get(log)
        if numbers is None:
            numbers = self._numbers[log] = NextNumbers(log.last_sequence)
        return numbers
