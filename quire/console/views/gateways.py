"""The gateways: logs, rates, clients that wait, slow consumers, groups and errors. Pure.

The writer of a log is known to its election, so the logs of a silent gateway are shown, too.
Everything else is known to the gateway alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from quire.console import words
from quire.console.looks import ClusterLook, GatewayLook
from quire.console.views.paging import ROWS_MAX, Paging, page_of
from quire.gateway.place import GatewayPlace


@dataclass(frozen=True, slots=True)
class GatewayRow:
    """A gateway: where it is, how it is, and its rates over the last minute."""

    gateway: str
    kafka: str
    grpc: str
    severity: str
    state: str
    note: str
    logs: int
    version: str = words.NONE
    since_ms: float | None = None
    requests_per_second: float | None = None
    append_bytes_per_second: float | None = None
    read_bytes_per_second: float | None = None
    under_way: int | None = None
    streams: int | None = None
    kafka_connections: int | None = None


@dataclass(frozen=True, slots=True)
class OwnedLogRow:
    """A log that a gateway writes, and since when."""

    log: str
    gateway: str
    since_ms: float | None


@dataclass(frozen=True, slots=True)
class LateClientRow:
    """A client that has used up a quota of a gateway."""

    client: str
    gateway: str
    direction: str
    waits_seconds: float
    throttled: int


@dataclass(frozen=True, slots=True)
class SlowConsumerRow:
    """A consumer that takes no part of its stream."""

    client: str
    gateway: str
    log: str
    protocol: str
    waits_seconds: float


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group of Kafka's consumers, and its place in one log, as its cursor has it."""

    group: str
    gateway: str
    stage: str
    members: int
    log: str
    lag: int | None
    moved: str


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """How often gateways answered with an error, by its kind."""

    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class GatewaysPage:
    """The page of gateways; `paging` counts the logs."""

    gateways: Sequence[GatewayRow]
    gateways_total: int
    paging: Paging
    logs: Sequence[OwnedLogRow]
    late: Sequence[LateClientRow]
    late_total: int
    slow: Sequence[SlowConsumerRow]
    slow_total: int
    groups: Sequence[GroupRow]
    groups_total: int
    errors: Sequence[ErrorRow]
    at_ms: int


def gateways(snapshot: ClusterLook, page: int = 1) -> GatewaysPage:
    """Return the page of gateways. `page` counts pages of their logs."""
    owned = _owned(snapshot)
    counts = Counter(each.gateway for each in owned)
    known = _known(snapshot, owned)
    paging, logs = page_of(owned, page)
    late = sorted(_late(snapshot), key=lambda each: (-each.waits_seconds, each.client))
    slow = sorted(_slow(snapshot), key=lambda each: (-each.waits_seconds, each.client))
    groups = _groups(snapshot)
    said = [each.status for each in snapshot.gateways if each.status is not None]
    kinds = Counter[str]()
    for status in said:
        for error in status.errors:
            kinds[error.kind] += int(error.count)
    return GatewaysPage(
        [_row(each, counts[each.place.url], snapshot.at_ms) for each in known[:ROWS_MAX]],
        len(known),
        *(paging, logs),
        *(late[:ROWS_MAX], sum(int(each.late_total) for each in said)),
        *(slow[:ROWS_MAX], sum(int(each.slow_total) for each in said)),
        *(groups[:ROWS_MAX], len(groups)),
        [ErrorRow(kind, count) for kind, count in kinds.most_common(ROWS_MAX)],
        snapshot.at_ms,
    )


def _known(snapshot: ClusterLook, owned: Sequence[OwnedLogRow]) -> list[GatewayLook]:
    """Return the registered gateways, and gateways that only elections of logs know."""
    found = {each.place.url: each for each in snapshot.gateways}
    for row in owned:
        unknown = "it writes a log, and is not registered: it is older, or cannot reach the store"
        found.setdefault(row.gateway, GatewayLook(GatewayPlace(row.gateway), trouble=unknown))
    return [found[url] for url in sorted(found)]


def _row(look: GatewayLook, logs: int, now_ms: int) -> GatewayRow:
    place, status = look.place, look.status
    if status is None:
        where = place.url, place.kafka or "", place.grpc or ""
        return GatewayRow(*where, "warning", "silent", look.trouble, logs)
    waits = status.slow_total or status.late_total
    state = "ends" if status.ending else "serves"
    severity = "warning" if status.ending or status.slow_total else "ok"
    note = ""
    if waits:
        note = f"{words.plural(int(status.slow_total), 'slow consumer')}, " + words.plural(
            int(status.late_total), "client over its quota", "clients over their quota"
        )
    return GatewayRow(
        *(place.url, place.kafka or "", place.grpc or ""),
        *(severity, state, note),
        *(logs, status.version or words.NONE, look.at_ms - 1000 * status.up_seconds),
        *(look.requests_per_second, look.append_bytes_per_second, look.read_bytes_per_second),
        *(int(status.requests_under_way), int(status.streams), int(status.kafka_connections)),
    )


def _owned(snapshot: ClusterLook) -> list[OwnedLogRow]:
    """Return the logs that gateways write, by name: as gateways say, else as elections do."""
    found: dict[str, OwnedLogRow] = {}
    for name, look in snapshot.logs.items():
        leader = look.view.leader
        place = GatewayPlace.named((leader and leader.candidate) or "")
        if place is not None and leader is not None:
            found[name] = OwnedLogRow(name, place.url, leader.since_ms)
    for gateway in snapshot.gateways:
        for each in gateway.status.logs if gateway.status else ():
            if each.name in found and found[each.name].gateway != gateway.place.url:
                continue  # the election counts
            since = gateway.at_ms - 1000 * each.held_seconds
            found[each.name] = OwnedLogRow(each.name, gateway.place.url, since)
    return [found[name] for name in sorted(found)]


def _late(snapshot: ClusterLook) -> list[LateClientRow]:
    return [
        LateClientRow(
            *(each.client, look.place.url, each.direction, each.waits_seconds, int(each.throttled))
        )
        for look in snapshot.gateways
        for each in (look.status.late if look.status else ())
    ]


def _slow(snapshot: ClusterLook) -> list[SlowConsumerRow]:
    return [
        SlowConsumerRow(each.client, look.place.url, each.log, each.protocol, each.waits_seconds)
        for look in snapshot.gateways
        for each in (look.status.slow if look.status else ())
    ]


def _groups(snapshot: ClusterLook) -> list[GroupRow]:
    """Return the groups that gateways coordinate, with a row for each log that they read."""
    places: dict[str, list[tuple[str, int | None, str]]] = {}
    for name, look in sorted(snapshot.logs.items()):
        for cursor in look.view.cursors:
            moved = words.ago(cursor.updated_ms, snapshot.at_ms)
            places.setdefault(cursor.name, []).append((name, cursor.lag, moved))
    rows = [
        GroupRow(each.name, look.place.url, each.stage, int(each.members), *at)
        for look in snapshot.gateways
        for each in (look.status.groups if look.status else ())
        for at in places.get(each.name) or [("", None, words.NONE)]
    ]
    return sorted(rows, key=lambda each: (-(each.lag or 0), each.group, each.log))
