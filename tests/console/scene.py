"""Clusters of any size as values, and the four troubles planted in them."""

from __future__ import annotations

import math
from dataclasses import replace

from quire.bookie import LedgerUse, LedgerUses, UseKind
from quire.console.looks import RECORDS, USED, BookiePace, ClusterLook, GatewayLook, LogLook
from quire.console.ring import Point
from quire.gateway.place import GatewayPlace
from quire.gateway.status import (
    ErrorCount,
    GatewayStatus,
    GroupState,
    LateClient,
    OwnedLog,
    SlowConsumer,
)
from quire.healing.state import BookieFacts
from quire.healing.summary import Count, State, Summary
from quire.healing.verdict import ClusterFacts
from quire.labels import Labels
from quire.log.manifest.info import SegmentInfo
from quire.view.values import ClientView, CursorView, LeaderView, LogView
from tests.healing import scene

NOW = scene.NOW
QUICK, BUSY, QUIET = 0.0004, 12.0, 0.5
"""Seconds of a bookie's answer; records a second of logs."""


def bookie(name: str, rack: str = "", **others: object) -> BookieFacts:
    """A bookie of a rack; `others` as in tests/healing/scene.py."""
    found = scene.bookie(name, **others)  # type: ignore[arg-type]
    labels = Labels(region="eu", zone="a", rack=rack, host=f"h-{name}") if rack else found.labels
    if found.heartbeat is not None:
        found = replace(found, heartbeat=replace(found.heartbeat, labels=labels))
    if found.registered is not None:
        found = replace(found, registered=replace(found.registered, labels=labels))
    return found


def summary(**others: object) -> Summary:
    values: dict[str, object] = {"state": State.IDLE, "ledgers": 100_000, "indexed": 100_000}
    return Summary(NOW - 5_000, "b00:1", 3, **{**values, **others})  # type: ignore[arg-type]


def segments(count: int, records: int, is_open: bool = True) -> tuple[SegmentInfo, ...]:
    found = []
    for number in range(1, count + 1):
        last = is_open and number == count
        found.append(
            SegmentInfo(
                number,
                1000 + number,
                1 + number // 3,
                NOW - 60_000,
                (number - 1) * records,
                None if last else records,
                None if last else 100 * records,
                NOW,
                False,
                None,
                True,
            )
        )
    return tuple(found)


def log(
    name: str,
    end: int = 5_000,
    per_second: float | None = QUIET,
    cursors: tuple[CursorView, ...] = (),
    **others: object,
) -> LogLook:
    count = 5
    view = LogView(
        *(name, f"id-{name}", NOW - 86_400_000, 2, False, False, count),
        *(segments(count, end // count), 400_000, 0, end),
        leader=LeaderView(2, candidate="app1:7"),
        cursors=cursors,
    )
    return LogLook(replace(view, **others), NOW - 2_000, per_second)  # type: ignore[arg-type]


def cursor(name: str = "billing", lag: int | None = 0, moved: float = 1.0) -> CursorView:
    return CursorView(name, "3.17.0", NOW - round(1000 * moved), lag)


def day(start: float, scale: float) -> tuple[Point, ...]:
    """A figure over a day: it grows slowly at night and quickly at noon."""
    found, value = [], start
    for step in range(288):
        value += (
            scale * (1.2 - math.cos(2 * math.pi * step / 288)) * (1 + 0.1 * math.sin(1.7 * step))
        )
        found.append(Point(NOW / 1000 - 300 * (287 - step), value))
    return tuple(found)


def snapshot(
    *bookies: BookieFacts, logs: tuple[LogLook, ...] = (), ensemble: int = 3, **others: object
) -> ClusterLook:
    facts = ClusterFacts(bookies, NOW, ensemble=ensemble, summary=summary())
    paces = {
        each.bookie: BookiePace(QUICK, 0.004, 90.0) for each in bookies if each.info is not None
    }
    found = ClusterLook(
        *(NOW, "zk://zoo1:2181/quire", facts, NOW - 1_000),
        paces=paces,
        log_names=sorted(each.view.name for each in logs),
        logs={each.view.name: each for each in logs},
        clients=tuple(
            ClientView(f"c{number}", f"app1, process {number}", "1.0") for number in (7, 8)
        ),
        figures={RECORDS: day(4e9, 1e6), USED: day(9e12, 4e9)},
        since_ms=NOW - 86_400_000,
    )
    return replace(found, **others)  # type: ignore[arg-type]


def healthy(bookies: int = 6, logs: int = 12) -> ClusterLook:
    """A cluster of racks in which all is well."""
    return snapshot(
        *(bookie(f"b{number:02}", f"r{number % 3}", heard=3.0) for number in range(bookies)),
        logs=tuple(log(f"log-{number:04}", cursors=(cursor(),)) for number in range(logs)),
    )


def with_gateways(value: ClusterLook, count: int = 2) -> ClusterLook:
    """Gateways serve: the last one is silent, the first has clients in trouble."""
    told = GatewayStatus(
        version="1.0",
        up_seconds=3_600,
        requests=9_000,
        streams=12,
        kafka_connections=3,
        logs=[OwnedLog("log-0000", 600), OwnedLog("log-0001", 60)],
        late=[LateClient("quire://client/shop", "append", 1.5, 7)],
        late_total=1,
        slow=[SlowConsumer("10.0.0.9", "log-0001", "http", 42.0)],
        slow_total=1,
        groups=[GroupState("billing", "stable", 2, 3), GroupState("idle", "empty", 0, 1)],
        groups_total=2,
        errors=[ErrorCount("quota_exceeded", 7), ErrorCount("outcome_unknown", 1)],
    )
    quiet = GatewayStatus(version="1.0", up_seconds=60)
    looks = []
    for number in range(count):
        place = GatewayPlace(f"http://127.0.0.1:{8180 + number}", f"127.0.0.1:{9092 + number}")
        if number and number == count - 1:
            looks.append(GatewayLook(place, trouble="no answer within 3 s"))
        else:
            status = quiet if number else told
            looks.append(GatewayLook(place, status, NOW, 120.5, 2_500_000.0, 900.0))
    return replace(value, gateways=looks)


WRITER = LedgerUse(1005, UseKind.WRITES, "10.0.0.7:4711", 2.0)
FOLLOWER = LedgerUse(1005, UseKind.FOLLOWS, "billing at ipv4:10.0.0.8:4712", 0.0)


def used(value: ClusterLook, *uses: LedgerUse) -> ClusterLook:
    """Ledgers are in use at the first bookie, in a cluster with the log `log-0000` alone."""
    assert value.facts is not None
    first, *others = value.facts.bookies
    assert first.info is not None
    first = replace(first, info=replace(first.info, in_use=LedgerUses(uses)))
    look = value.logs["log-0000"]
    facts = replace(value.facts, bookies=(first, *others))
    return replace(value, facts=facts, logs={"log-0000": look}, log_names=["log-0000"])


def with_pace(value: ClusterLook, name: str, pace: BookiePace) -> ClusterLook:
    return replace(value, paces={**value.paces, name: pace})


def with_log(value: ClusterLook, look: LogLook) -> ClusterLook:
    name = look.view.name
    return replace(
        value,
        logs={**value.logs, name: look},
        log_names=sorted({*value.log_names, name}),
    )


def slow_bookie(value: ClusterLook) -> ClusterLook:
    """The disk of b03 takes a second for each write."""
    return with_pace(value, "b03", BookiePace(0.002, 0.95, 1.0))


def waiting_appends(value: ClusterLook) -> ClusterLook:
    """All bookies but two are stopped."""
    assert value.facts is not None
    bookies = [
        each if index < 2 else bookie(each.bookie, f"r{index % 3}", up=False, heard=30.0)
        for index, each in enumerate(value.facts.bookies)
    ]
    return replace(value, facts=replace(value.facts, bookies=bookies))


def growing_log(value: ClusterLook) -> ClusterLook:
    return with_log(value, log("payments", 9_000_000, 4_711.0))


def lagging_reader(value: ClusterLook) -> ClusterLook:
    late = (cursor("fraud-check", 1_250_000, moved=340), cursor("billing"))
    return with_log(value, log("orders", 2_000_000, BUSY, late))


def healing_work(value: ClusterLook) -> ClusterLook:
    assert value.facts is not None
    counts = {str(Count.ONE_COPY): 2, str(Count.SHORT): 41, str(Count.ASKED): 12}
    found = summary(state=State.MOVING, counts=counts, worst=(17, 4), lost=("b05",))
    return replace(value, facts=replace(value.facts, summary=found))


def all_troubles(value: ClusterLook) -> ClusterLook:
    """The four troubles at once, but that too few bookies are writable; and gateways."""
    return with_gateways(lagging_reader(growing_log(slow_bookie(value))))
