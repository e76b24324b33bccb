"""Requests of operators about consumer groups: which there are, their members, their deletion.

Each gateway tells of the groups that it coordinates, as a broker does: Kafka's tools ask all of
them. Groups belong to no topic, so their descriptions need the right to observe all logs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

from kio.schema.errors import ErrorCode

from quire.errors import NoSuchCursorError, NoSuchLogError, NotPermittedError, QuireError
from quire.gateway.kafka.broker import PARTITION, Broker, KafkaSession
from quire.gateway.kafka.coordinating import Coordinators, LedGroup
from quire.gateway.kafka.errors import code_of, group_code_of
from quire.gateway.kafka.groups import ConsumerGroup, Stage
from quire.gateway.kafka.messages import Fields
from quire.rights.roles import Action

STATES: Final[Mapping[Stage, str]] = MappingProxyType(
    {
        Stage.EMPTY: "Empty",
        Stage.JOINING: "PreparingRebalance",
        Stage.ASSIGNING: "CompletingRebalance",
        Stage.STABLE: "Stable",
    }
)

_DELETABLE: Final = (ErrorCode.none, ErrorCode.group_id_not_found)
"""States of groups that may be deleted."""

CONSUMERS: Final = "consumer"
"""The kind of a group without members: only its offsets are known."""

_NO_OPERATIONS: Final = -(2**31)
"""The operations that the caller may carry out are not told."""


class Describing:
    """Answers ListGroups, DescribeGroups, DeleteGroups and OffsetDelete."""

    def __init__(self, coordinators: Coordinators) -> None:
        self._coordinators = coordinators

    async def list(self, broker: Broker, session: KafkaSession, request: Any) -> Fields:
        """Answer ListGroups: the groups that this gateway coordinates."""
        if not _may(broker, session):  # Kafka lists the groups that the caller may describe: none
            return {"error_code": ErrorCode.none, "groups": []}
        wanted = {each.lower() for each in getattr(request, "states_filter", ())}
        kinds = {each.lower() for each in getattr(request, "types_filter", ())}
        groups = [
            {
                "group_id": name,
                "protocol_type": group.kind or CONSUMERS,
                "group_state": STATES[group.stage],
                "group_type": "classic",
            }
            for name, group in self._coordinators.groups()
            if not wanted or STATES[group.stage].lower() in wanted
        ]
        is_wanted = not kinds or "classic" in kinds
        return {"error_code": ErrorCode.none, "groups": groups if is_wanted else []}

    async def describe(self, broker: Broker, session: KafkaSession, request: Any) -> Fields:
        """Answer DescribeGroups. A group that is named twice is described once."""
        may = _may(broker, session)
        groups = dict(self._coordinators.groups())
        names = dict.fromkeys(str(each) for each in request.groups)
        return {"groups": [self._describe(name, groups.get(name), may) for name in names]}

    def _describe(self, name: str, group: ConsumerGroup | None, may: bool) -> Fields:
        fields: dict[str, Any] = {"group_id": name, "group_state": "", "protocol_type": ""}
        fields |= {"protocol_data": "", "members": [], "authorized_operations": _NO_OPERATIONS}
        if not may:
            return fields | {"error_code": ErrorCode.group_authorization_failed}
        if group is None:
            return fields | {"error_code": ErrorCode.not_coordinator}
        is_stable = group.stage is Stage.STABLE
        members = [
            {
                "member_id": each.name,
                "group_instance_id": None,
                "client_id": each.client,
                "client_host": f"/{each.host}",
                "member_metadata": each.metadata,
                "member_assignment": each.part if is_stable else b"",
            }
            for each in group.described()
        ]
        return fields | {
            "error_code": ErrorCode.none,
            "group_state": STATES[group.stage],
            "protocol_type": group.kind or CONSUMERS,
            "protocol_data": group.protocol if is_stable else "",
            "members": members,
        }

    async def delete_groups(self, broker: Broker, session: KafkaSession, request: Any) -> Fields:
        """Answer DeleteGroups: delete the cursors of groups without members."""
        results = []
        for name in request.groups_names:
            code = await self._delete(broker, session, str(name))
            results.append({"group_id": name, "error_code": code})
        return {"results": results}

    async def _delete(self, broker: Broker, session: KafkaSession, name: str) -> ErrorCode:
        code = self._coordinators.state(name)
        if code is ErrorCode.not_coordinator:
            return code
        try:
            # The rights first: members are not kept out for a caller that may not delete.
            await _deletable(broker, session, name)
            if code not in _DELETABLE:
                return code
            async with self._coordinators.withheld(name) as (code, led):
                if led is None:
                    return code
                logs = await _deletable(broker, session, name)
                for log in logs:
                    with suppress(NoSuchLogError, NoSuchCursorError):
                        await led.cursors(broker.client, log).delete(name)
                await self._coordinators.give_up(led)
                return ErrorCode.none if logs else code
        except NotPermittedError:
            return ErrorCode.group_authorization_failed
        except QuireError as error:
            return group_code_of(error)

    async def delete_offsets(self, broker: Broker, session: KafkaSession, request: Any) -> Fields:
        """Answer OffsetDelete: delete the cursors of a group at some topics."""
        group = str(request.group_id)
        denied = dict(_denials(broker, session, request))
        if denied and all(each.name in denied for each in request.topics):
            # Members are not kept out for a caller that may not delete.
            topics = [_of_partitions(each, denied[each.name]) for each in request.topics]
            return {"error_code": ErrorCode.none, "topics": topics}
        async with self._coordinators.withheld(group) as (state, led):
            if state is ErrorCode.not_coordinator:
                return {"error_code": state, "topics": []}
            topics = []
            for topic in request.topics:
                code = denied.get(topic.name, ErrorCode.group_subscribed_to_topic)
                is_named = any(each.partition_index == PARTITION for each in topic.partitions)
                if is_named and led is not None and topic.name not in denied:
                    code = await _delete_offset(broker, session, led, topic.name, group)
                unknown = code if topic.name in denied else ErrorCode.unknown_topic_or_partition
                topics.append(_of_partitions(topic, code, unknown))
            return {"error_code": ErrorCode.none, "topics": topics}


async def _delete_offset(
    broker: Broker, session: KafkaSession, led: LedGroup, log: str, group: str
) -> ErrorCode:
    try:
        broker.check(session, Action.OPERATE, log)
        with suppress(NoSuchCursorError):
            await led.cursors(broker.client, log).delete(group)
    except QuireError as error:
        return group_code_of(error)
    return ErrorCode.none


def _denials(
    broker: Broker, session: KafkaSession, request: Any
) -> Iterator[tuple[str, ErrorCode]]:
    """Yield the topics of a request where the caller may delete no offset, with codes."""
    for name in dict.fromkeys(topic.name for topic in request.topics):
        try:
            broker.check(session, Action.OPERATE, name)
        except QuireError as error:
            yield name, code_of(error)


def _of_partitions(topic: Any, code: ErrorCode, unknown: ErrorCode | None = None) -> Fields:
    """Answer for each partition of a topic; `unknown` is for others than its one."""
    partitions = [
        {
            "partition_index": each.partition_index,
            "error_code": code if each.partition_index == PARTITION else unknown or code,
        }
        for each in topic.partitions
    ]
    return {"name": topic.name, "partitions": partitions}


async def _deletable(broker: Broker, session: KafkaSession, group: str) -> list[str]:
    """Return the logs at which a group has a cursor. Raises unless all may be deleted."""
    logs = await _logs_with_offsets(broker, group)
    for log in logs:
        broker.check(session, Action.OPERATE, log)
    return logs


async def _logs_with_offsets(broker: Broker, group: str) -> list[str]:
    """Return the logs at which a group has a cursor."""
    found = []
    for log in await broker.client.list_logs():
        with suppress(NoSuchLogError, NoSuchCursorError):
            await broker.client.log_cursors(log).find(group)
            found.append(log)
    return found


def _may(broker: Broker, session: KafkaSession) -> bool:
    try:
        broker.check(session, Action.OBSERVE, None)
    except QuireError:
        return False
    return True
