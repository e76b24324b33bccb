"""Spans of a client and of a bookie, in an SDK's memory; none of them without a provider."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import quire
from quire.errors import ConfigurationError, NoSuchLedgerError
from quire.metrics.meter import SILENT_METER
from quire.testing import MemoryCluster
from quire.tracing import spans
from quire.tracing.opentelemetry import spans_of, spans_of_process
from quire.tracing.spans import NAMES, NO_SPANS
from tests.support.virtual import virtually

ROOT = Path(__file__).resolve().parents[2]


class Told:
    """A provider that keeps its spans."""

    def __init__(self) -> None:
        self.provider = TracerProvider(shutdown_on_exit=False)
        self._kept = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))

    def named(self, name: str) -> list[ReadableSpan]:
        return [each for each in self._kept.get_finished_spans() if each.name == name]

    def finished(self) -> int:
        return len(self._kept.get_finished_spans())

    def one(self, name: str) -> ReadableSpan:
        (found,) = self.named(name)
        return found


Scene = Callable[[MemoryCluster, Told], Coroutine[Any, Any, None]]


def play(scene: Scene) -> Told:
    told = Told()
    with MemoryCluster(4) as cluster:
        virtually(lambda: scene(cluster, told))
    return told


def values(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def identity(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


async def _crash_and_open(cluster: MemoryCluster, told: Told) -> None:
    async with quire.connect(cluster.store_uri) as first:
        log = await first.open_log("orders")
        await log.append(b"buy 100")
        log.abandon()
    async with quire.connect(cluster.store_uri, tracer_provider=told.provider) as client:
        with told.provider.get_tracer("app").start_as_current_span("request"):
            log = await client.open_log("orders")
        await log.append(b"sell 20")
        await log.roll()
        await log.close()


def test_a_takeover_stands_below_its_opening_and_its_recovery_below_the_takeover() -> None:
    told = play(_crash_and_open)
    opened, taken = told.one(spans.OPEN_LOG), told.one(spans.TAKE_OVER)
    recovered = told.one(spans.RECOVER)
    assert parent(opened) == identity(told.one("request"))
    assert parent(taken) == identity(opened)
    above = {identity(each): each for name in NAMES for each in told.named(name)}
    over = above[parent(recovered) or 0]
    assert over.name == spans.OPEN_LEDGER
    assert parent(over) == identity(taken)
    assert values(opened) == {spans.LOG: "orders", spans.EPOCH: 2}
    assert values(taken) == {spans.LOG: "orders", spans.EPOCH: 2}
    assert values(recovered)[spans.LAST_ENTRY] == 0
    assert re.fullmatch("[0-9a-f]{16}", str(values(recovered)[spans.REQUEST]))


def test_a_roll_belongs_to_no_request() -> None:
    roll = play(_crash_and_open).one(spans.ROLL)
    assert roll.parent is None
    assert values(roll) == {spans.LOG: "orders", spans.EPOCH: 2, spans.SEGMENT: 2}


def test_an_error_ends_a_span_with_its_name() -> None:
    async def scene(cluster: MemoryCluster, told: Told) -> None:
        async with quire.connect(cluster.store_uri, tracer_provider=told.provider) as client:
            with pytest.raises(NoSuchLedgerError):
                await client.open_ledger(4711)

    span = play(scene).one(spans.OPEN_LEDGER)
    assert values(span) == {spans.LEDGER: 4711, "error.type": "NoSuchLedgerError"}
    assert span.status.status_code is trace.StatusCode.ERROR


def test_a_cancelled_takeover_says_so() -> None:
    async def scene(cluster: MemoryCluster, told: Told) -> None:
        for number in range(4):
            cluster.pause(number)
        async with quire.connect(cluster.store_uri, tracer_provider=told.provider) as client:
            writer = await client.create_ledger()
            waiting = asyncio.ensure_future(client.open_ledger(writer.ledger))
            await asyncio.sleep(1)  # of virtual time
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            cluster.heal()
            writer.abandon()

    assert values(play(scene).one(spans.RECOVER))["error.type"] == "CancelledError"


def test_no_span_stands_for_an_entry() -> None:
    async def scene(cluster: MemoryCluster, told: Told) -> None:
        async with quire.connect(cluster.store_uri, tracer_provider=told.provider) as client:
            log = await client.open_log("orders")
            before = told.finished()
            for _ in range(200):
                await log.append(b"x")
            await log.close()
            reader = await client.read_log("orders")
            assert len([record async for record in reader]) == 200
            assert told.finished() - before <= 2  # the reader opened its segment

    play(scene)


def test_the_spans_of_other_providers_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client without a provider uses none, whatever the process has."""

    def used(*_: object) -> None:
        raise AssertionError("the global provider was asked")

    monkeypatch.setattr(trace, "get_tracer_provider", used)
    monkeypatch.setattr(trace, "get_tracer", used)

    async def scene(cluster: MemoryCluster, told: Told) -> None:
        async with quire.connect(cluster.store_uri) as client:
            assert client._handles.meter is SILENT_METER
            async with client.lead_log("orders") as log:
                await log.append(b"x")

    play(scene)


def test_silent_spans_make_nothing() -> None:
    first = NO_SPANS.begin("a", {})
    assert NO_SPANS.begin("b", {}) is first
    with first as note:
        note("a", 1)


def test_a_provider_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="give a TracerProvider of OpenTelemetry"):
        spans_of("http://collector:4317")  # type: ignore[arg-type]


def test_a_bookie_without_a_provider_names_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match="opentelemetry-instrument"):
        spans_of_process()


def test_every_span_and_attribute_is_documented() -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    assert not [each for each in (*NAMES, *spans.ATTRIBUTES) if f"`{each}`" not in page]
