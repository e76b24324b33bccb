"""Requests about the offsets of a topic: its ends, the first one from a time on, its trimming."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from kio.schema.errors import ErrorCode

from quire.aio.timing import time_limit
from quire.errors import InvalidRequestError, PositionTrimmedError, QuireError, UnreadableError
from quire.gateway.kafka.broker import PARTITION, Broker, KafkaSession
from quire.gateway.kafka.errors import code_of
from quire.gateway.kafka.messages import Fields
from quire.gateway.kafka.records import time_of
from quire.log.records.position import BEGINNING
from quire.log.records.position import LATEST as END
from quire.rights.roles import Action

LATEST, EARLIEST = -1, -2
"""Times of a question for an offset that are not times."""

_UNTRIMMED: Final[Fields] = MappingProxyType({"low_watermark": -1})
"""A partition of an answer to DeleteRecords where nothing was deleted."""

END_SECONDS: Final = 1.0
"""A question for the end waits so long for a writer that may be gone. One that lives announces its
records within milliseconds.
"""

WHOLE: Final = -1
"""In a request to delete records: all that there are."""

PASSED_MAX: Final = 100_000
"""Records that a search for a time passes because their own time is earlier than their append, as
of a log that was copied. Beyond it the search answers with a record that is too early: a consumer
that begins there misses none.
"""


async def list_offsets(broker: Broker, session: KafkaSession, request: Any) -> Fields:
    """Answer ListOffsets: the ends of topics, or the first offset from a time on."""
    check = partial(broker.check, session, Action.READ)
    return await _by_partition(request, {}, check, partial(_offset, broker))


async def _by_partition(
    request: Any,
    empty: Fields,
    check: Callable[[str], None],
    answer: Callable[[str, Any], Awaitable[Fields]],
) -> Fields:
    """Answer a request for each partition that it names; `empty` has the fields of an error. A
    partition that was named before is refused, so its work is done once. Rights come first.
    """
    topics, named = [], set[tuple[str, int]]()
    for topic in request.topics:
        partitions = []
        denied = _denied(check, topic.name)
        for each in topic.partitions:
            index = each.partition_index
            fields: Fields = {**empty, "partition_index": index}
            if denied is not None:
                fields = {**fields, "error_code": denied}
            elif (topic.name, index) in named:
                fields = {**fields, "error_code": ErrorCode.invalid_request}
            elif index != PARTITION:
                fields = {**fields, "error_code": ErrorCode.unknown_topic_or_partition}
            else:
                fields = {**fields, **await answer(topic.name, each)}
            named.add((topic.name, index))
            partitions.append(fields)
        topics.append({"name": topic.name, "partitions": partitions})
    return {"topics": topics}


def _denied(check: Callable[[str], None], name: str) -> ErrorCode | None:
    try:
        check(name)
    except QuireError as error:
        return code_of(error)
    return None


async def _offset(broker: Broker, name: str, asked: Any) -> Fields:
    try:
        time_ms, offset = await _look_up(broker, name, asked.timestamp)
    except QuireError as error:
        return {"error_code": code_of(error)}
    return {
        "error_code": ErrorCode.none,
        "timestamp": time_ms,
        "offset": offset,
        "leader_epoch": -1,
    }


async def _look_up(broker: Broker, name: str, time_ms: int) -> tuple[int, int]:
    if time_ms == LATEST:
        return -1, await _end(broker, name)
    if time_ms == EARLIEST:
        return -1, await first_offset(broker, name)
    if time_ms < 0:
        raise InvalidRequestError(f"time {time_ms} of a question for an offset is not known")
    try:
        moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=time_ms)
    except OverflowError:
        return -1, -1
    return await _first_from(broker, name, moment, time_ms)


async def _end(broker: Broker, name: str) -> int:
    """Return the offset after all acknowledged records: a client that has produced a record finds
    it before the end. After the announced records, if a writer that is gone left the end undecided.
    """
    with suppress(UnreadableError, TimeoutError):
        async with time_limit(END_SECONDS):
            return (await broker.client.log_end(name, linearizable=True)).offset
    return (await broker.client.log_end(name)).offset


async def _first_from(broker: Broker, name: str, moment: datetime, time_ms: int) -> tuple[int, int]:
    """Return the time and offset of the first record from a time on; −1 if there is none.

    A record has been appended at its own time or later, so the search begins with the first one
    that was appended then.
    """
    passed = 0
    async with broker.client.read_log(name, moment) as reader:
        async for record in reader:
            if time_of(record) >= time_ms or passed == PASSED_MAX:
                return time_of(record), record.offset
            passed += 1
    return -1, -1


async def first_offset(broker: Broker, name: str) -> int:
    """Return the offset of a log's first record, or of the next one if it has none."""
    while True:
        end = (await broker.client.log_end(name)).offset
        with suppress(PositionTrimmedError):
            async with broker.client.read_log(name, BEGINNING) as reader:
                async for record in reader:
                    return record.offset
            return end


async def delete_records(broker: Broker, session: KafkaSession, request: Any) -> Fields:
    """Answer DeleteRecords: trim logs."""
    check = partial(broker.check, session, Action.OPERATE)
    return await _by_partition(request, _UNTRIMMED, check, partial(_trim, broker))


async def _trim(broker: Broker, name: str, asked: Any) -> Fields:
    try:
        await broker.client.trim_log(name, END if asked.offset == WHOLE else asked.offset)
        first = await first_offset(broker, name)
    except QuireError as error:
        code = code_of(error)
        if code is ErrorCode.invalid_request:
            code = ErrorCode.offset_out_of_range
        return {"error_code": code}
    return {"error_code": ErrorCode.none, "low_watermark": first}
