"""Produce: batches of producers, appended as they are sent.

A batch is appended as a whole, and acknowledged once it is certain, whatever `acks` says; with
`acks=0` the answer is left out. The number of a batch of an idempotent producer is kept in the log
with its records: a repetition is answered with the first offset, also by another gateway.

Kafka's clients have several batches under way, and repeat failed ones. A batch that comes
before the repetition of an earlier one would reverse their order. So this gateway takes only the
batch that continues the producer's last one, as far as it remembers it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from typing import Any, Final

from kio.schema.errors import ErrorCode

from quire.errors import ForgottenProducerError, InvalidRequestError, QuireError
from quire.gateway.answers import GatewayError
from quire.gateway.kafka.broker import PARTITION, Broker, KafkaSession, check_topic
from quire.gateway.kafka.errors import code_of
from quire.gateway.kafka.messages import Fields
from quire.gateway.kafka.records import Produced, decode_batches
from quire.log.records.producers import ProducerSequence
from quire.rights.roles import Action

SEQUENCES: Final = 2**31
"""A producer's sequence numbers come round after so many records."""

REMEMBERED_MAX: Final = 10_000
"""Producers of this gateway, of the last to write, with a remembered next number."""


class NextNumbers:
    """The next numbers of this gateway's producers."""

    def __init__(self) -> None:
        self._next: OrderedDict[tuple[str, int], tuple[int, int]] = OrderedDict()

    def admits(self, log: str, batch: Produced) -> bool:
        """Return whether a batch continues its producer's last one, or repeats one before."""
        known = self._next.get((log, batch.producer))
        if known is None or known[0] != batch.epoch:
            return True
        ahead = (batch.sequence - known[1]) % SEQUENCES
        return ahead == 0 or ahead >= SEQUENCES // 2

    def note(self, log: str, batch: Produced) -> None:
        """Remember that a batch was taken."""
        key = (log, batch.producer)
        following = (batch.sequence + len(batch.records)) % SEQUENCES
        known = self._next.pop(key, None)
        if known is not None and known[0] == batch.epoch:
            is_repeated = (batch.sequence - known[1]) % SEQUENCES >= SEQUENCES // 2
            following = known[1] if is_repeated else following
        self._next[key] = batch.epoch, following
        while len(self._next) > REMEMBERED_MAX:
            self._next.popitem(last=False)

    def fail(self, log: str, batch: Produced) -> None:
        """Go on with a batch that failed: those after it wait for its repetition."""
        known = self._next.get((log, batch.producer))
        if known is not None and known[0] == batch.epoch:
            self._next[log, batch.producer] = batch.epoch, batch.sequence


class Producing:
    """Answers Produce and InitProducerId."""

    def __init__(self) -> None:
        self._numbers = NextNumbers()

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
        answers = await asyncio.gather(
            *(self._topic(broker, session, each) for each in request.topic_data)
        )
        return None if request.acks == 0 else {"responses": list(answers)}

    async def _topic(self, broker: Broker, session: KafkaSession, topic: Any) -> Fields:
        partitions = [
            await self._partition(broker, session, topic.name, each)
            for each in topic.partition_data
        ]
        return {"name": topic.name, "partition_responses": partitions}

    async def _partition(
        self, broker: Broker, session: KafkaSession, name: str, data: Any
    ) -> Fields:
        fields: dict[str, Any] = {"index": data.index, "base_offset": -1, "record_errors": []}
        if data.index != PARTITION:
            return fields | {"error_code": ErrorCode.unknown_topic_or_partition}
        payload = bytes(data.records or b"")
        try:
            check_topic(name)
            broker.check(session, Action.APPEND, name)
            offset = await self._append(broker, name, payload)
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

    async def _append(self, broker: Broker, name: str, payload: bytes) -> int | None:
        """Return the offset of the first record; None for a batch that comes too early."""
        batches = list(decode_batches(payload))
        if not batches:
            raise InvalidRequestError("a request has no batch")
        offsets: list[int] = []
        async with broker.owners.writer(name) as log:
            for batch in batches:
                if batch.producer < 0:
                    places = await log.append_many(batch.records)
                else:
                    if not self._numbers.admits(name, batch):
                        return None
                    self._numbers.note(name, batch)
                    number = batch.epoch * SEQUENCES + batch.sequence
                    sequence = ProducerSequence(f"kafka-{batch.producer}", number)
                    try:
                        places = await log.append_many(batch.records, producer_sequence=sequence)
                    except QuireError:
                        self._numbers.fail(name, batch)
                        raise
                offsets.append(places[0].offset)
        return offsets[0]
