"""The status of a gateway, for a console: written by the gateway, read with suspicion. Pure.

A reader believes nothing about the form: another program may answer at the address of a gateway.
Numbers are finite and from 0 on, texts and lists have a bound. Fields that a reader does not know
are left out, so that a newer gateway can say more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar, cast

from quire.errors import InvalidRequestError

ROWS_MAX: Final = 100
"""Rows of each list except the logs: the others are counted."""

LOGS_MAX: Final = 10_000
TEXT_MAX: Final = 300
NUMBER_MAX: Final = 2**63

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OwnedLog:
    """A log that a gateway writes, and for how long it has been its writer."""

    name: str = ""
    held_seconds: float = 0


@dataclass(frozen=True, slots=True)
class LateClient:
    """A client that has used up some of its quota.

    Attributes:
        client: its identity or address.
        direction: `append` or `read`.
        waits_seconds: how long it has to wait now; 0 when it may go on.
        throttled: how often it had used up its quota since its budget was full.
    """

    client: str = ""
    direction: str = ""
    waits_seconds: float = 0
    throttled: int = 0


@dataclass(frozen=True, slots=True)
class SlowConsumer:
    """A consumer that does not take a part of its stream."""

    client: str = ""
    log: str = ""
    protocol: str = ""
    waits_seconds: float = 0


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group of Kafka's consumers that a gateway coordinates."""

    name: str = ""
    stage: str = ""
    members: int = 0
    generation: int = 0


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """How often requests ended with an error, by its kind."""

    kind: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class GatewayStatus:
    """See the module. Totals are since the gateway's start.

    Attributes:
        up_seconds: the time since that start.
        requests: the answers over all protocols.
        append_bytes, append_records, read_bytes, read_records: the amounts of all clients.
        streams: tails over HTTP and reads over gRPC that are open.
        kafka_connections: connections of Kafka's clients.
        late, slow, groups: the first of them; `late_total`, … count all.
    """

    version: str = ""
    up_seconds: float = 0
    ending: bool = False
    requests: int = 0
    append_bytes: int = 0
    append_records: int = 0
    read_bytes: int = 0
    read_records: int = 0
    requests_under_way: int = 0
    bytes_under_way: int = 0
    streams: int = 0
    kafka_connections: int = 0
    logs: Sequence[OwnedLog] = ()
    late: Sequence[LateClient] = ()
    late_total: int = 0
    slow: Sequence[SlowConsumer] = ()
    slow_total: int = 0
    groups: Sequence[GroupState] = ()
    groups_total: int = 0
    errors: Sequence[ErrorCount] = field(default=())


_ROWS: Final[Mapping[str, tuple[type[Any], int]]] = {
    "logs": (OwnedLog, LOGS_MAX),
    "late": (LateClient, ROWS_MAX),
    "slow": (SlowConsumer, ROWS_MAX),
    "groups": (GroupState, ROWS_MAX),
    "errors": (ErrorCount, ROWS_MAX),
}


def decode_status(data: bytes) -> GatewayStatus:
    """Return the status of an answer. Raises `InvalidRequestError` for anything else."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        raise InvalidRequestError("the answer is not JSON") from None
    if not isinstance(said, Mapping) or "up_seconds" not in said:
        raise InvalidRequestError("the answer is not the status of a gateway")
    return _made(GatewayStatus, said)


def _made(kind: Callable[..., T], said: Mapping[str, Any]) -> T:
    """Return a value of a class from an object; fields that are missing have their defaults."""
    defaults = kind()
    given = {
        each.name: _value(each.name, said[each.name], getattr(defaults, each.name))
        for each in fields(defaults)  # type: ignore[arg-type]
        if each.name in said
    }
    return kind(**given)


def _value(name: str, value: object, default: object) -> object:
    if name in _ROWS and isinstance(default, tuple):
        kind, most = _ROWS[name]
        if isinstance(value, list) and all(isinstance(each, Mapping) for each in value):
            return tuple(_made(kind, each) for each in value[:most])
    elif isinstance(default, bool):
        if isinstance(value, bool):
            return value
    elif isinstance(default, str):
        if isinstance(value, str):
            return "".join(each if each.isprintable() else "?" for each in value[:TEXT_MAX])
    elif _is_number(value) and 0 <= cast(float, value) < NUMBER_MAX:  # false for NaN
        return value
    raise InvalidRequestError(
        f"the answer is not the status of a gateway: field {name} has the value {str(value)[:60]}"
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
