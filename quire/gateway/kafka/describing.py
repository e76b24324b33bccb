"""Requests of operators about consumer groups: which there are, and their members.

Each gateway tells of the groups that it coordinates, as a broker does: Kafka's tools ask all of
them. Groups belong to no topic, so their descriptions need the right to observe all logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kio.schema.errors import ErrorCode

from quire.errors import QuireError
from quire.gateway.kafka.broker import Broker, KafkaSession
from quire.gateway.kafka.coordinating import Coordinators
from quire.gateway.kafka.groups import Stage
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

CONSUMERS: Final = "consumer"
"""The kind of a group without members: only its offsets are known."""

_NO_OPERATIONS: Final = -(2**31)
"""The operations that the caller may carry out are not told."""


class Describing:
    """Answers ListGroups and DescribeGroups."""

    def __init__(self, coordinators: Coordinators) -> None:
        self._coordinators = coordinators

    async def list(self, broker: Broker, session: KafkaSession, request: Any) -> Fields:
        """Answer ListGroups: the groups that this gateway coordinates."""
        if not _may(broker, session):
            return {"error_code": ErrorCode.cluster_authorization_failed, "groups": []}
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
        """Answer DescribeGroups."""
        may = _may(broker, session)
        return {"groups": [self._describe(str(each), may) for each in request.groups]}

    def _describe(self, name: str, may: bool) -> Fields:
        fields: dict[str, Any] = {"group_id": name, "group_state": "", "protocol_type": ""}
        fields |= {"protocol_data": "", "members": [], "authorized_operations": _NO_OPERATIONS}
        if not may:
            return fields | {"error_code": ErrorCode.group_authorization_failed}
        group = dict(self._coordinators.groups()).get(name)
        if group is None:
            return fields | {"error_code": ErrorCode.not_coordinator}
        is_stable = group.stage is Stage.STABLE
        members = [
            {
                "member_id": member,
                "group_instance_id": None,
                "client_id": member.rpartition("-")[0],
                "client_host": "",
                "member_metadata": metadata,
                "member_assignment": part if is_stable else b"",
            }
            for member, metadata, part in group.described()
        ]
        return fields | {
            "error_code": ErrorCode.none,
            "group_state": STATES[group.stage],
            "protocol_type": group.kind or CONSUMERS,
            "protocol_data": group.protocol if is_stable else "",
            "members": members,
        }


def _may(broker: Broker, session: KafkaSession) -> bool:
    try:
        broker.check(session, Action.OBSERVE, None)
    except QuireError:
        return False
    return True
