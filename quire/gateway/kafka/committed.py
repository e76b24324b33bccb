"""Answers to questions for the committed offsets of groups: any gateway can read them.

Offsets that cannot be read now are told as Kafka's coordinator tells that it is still reading them.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from quire.errors import NoSuchCursorError, NoSuchLogError, QuireError
from quire.gateway.kafka.broker import PARTITION, Broker, KafkaSession
from quire.gateway.kafka.errors import group_code_of
from quire.gateway.kafka.messages import Fields
from quire.rights.roles import Action

_NOT_NOW: Final = ErrorCode.coordinator_load_in_progress
"""Of offsets that cannot be read now. After each other code the consumer ends, or begins anew."""

_PASSING: Final = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.request_timed_out,
    }
)
"""Codes of errors that pass, when offsets are read."""


async def committed(broker: Broker, session: KafkaSession, request: Any) -> Fields:
    """Answer OffsetFetch: where the cursors of the group are."""
    groups = getattr(request, "groups", None)
    if groups is None:
        return await _committed(broker, session, request.group_id, request.topics)
    return {
        "groups": [
            {
                "group_id": each.group_id,
                **await _committed(broker, session, each.group_id, each.topics),
            }
            for each in groups
        ]
    }


async def _committed(broker: Broker, session: KafkaSession, group: str, topics: Any) -> Fields:
    """Return the topics of a group. If one cannot be read now, the group as a whole cannot."""
    if topics is None:
        names = await broker.client.list_logs()
        asked = {name: (PARTITION,) for name in names if broker.may(session, Action.READ, name)}
    else:
        asked = {each.name: each.partition_indexes for each in topics}
    answers: list[Fields] = []
    code = ErrorCode.none
    for name, partitions in asked.items():
        found = [await _committed_one(broker, session, group, name, each) for each in partitions]
        if any(each["error_code"] is _NOT_NOW for each in found):
            code = _NOT_NOW
        if topics is not None or found[0]["committed_offset"] >= 0:
            answers.append({"name": name, "partitions": found})
    return {"topics": answers, "error_code": code}


async def _committed_one(
    broker: Broker, session: KafkaSession, group: str, name: str, partition: int
) -> dict[str, Any]:
    offset, code = -1, ErrorCode.none
    try:
        broker.check(session, Action.READ, name)
        if partition == PARTITION:
            cursor = await broker.client.log_cursors(name).find(group)
            offset = await cursor.offset()
    except (NoSuchCursorError, NoSuchLogError):
        pass  # as Kafka: a code would end a consumer, also for a topic that was deleted meanwhile
    except QuireError as error:
        code = group_code_of(error)
        if code in _PASSING:
            code = _NOT_NOW
    return {
        "partition_index": partition,
        "committed_offset": offset,
        "metadata": "",
        "error_code": code,
    }
