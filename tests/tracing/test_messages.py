"""Records carry the trace that they are appended in, and a consumer's span finds it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import quire
import quire.sql
from quire import NewRecord
from quire.errors import ConfigurationError, EntryTooLargeError, TailConflictError
from quire.log.records.attributes import HEADERS_MAX
from quire.log.records.position import Position, Record
from quire.testing import MemoryCluster
from quire.tracing.messages import LINKS_MAX, VALUE_BYTES_MAX, MessageSpans, extracted
from tests.sql.memory_target import MemoryDatabase, MemoryTarget
from tests.support.virtual import virtually

LOG = "orders"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Told:
    """A provider that keeps its spans."""

    def __init__(self, **options: Any) -> None:
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self.kept = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self.kept))
        self.tracer = self.provider.get_tracer("application")

    def named(self, name: str) -> list[ReadableSpan]:
        return [each for each in self.kept.get_finished_spans() if each.name == name]

    def one(self, name: str) -> ReadableSpan:
        (found,) = self.named(name)
        return found


Scene = Callable[[quire.Client, Told], Coroutine[Any, Any, None]]


def play(scene: Scene, told: Told | None = None) -> Told:
    told = told or Told()
    with MemoryCluster() as cluster:
        virtually(lambda: played(cluster, scene, told))
    return told


async def played(cluster: MemoryCluster, scene: Scene, told: Told) -> None:
    provider = told.provider
    async with quire.connect(
        cluster.store_uri, tracer_provider=provider, trace_records=True
    ) as client:
        await scene(client, told)


@asynccontextmanager
async def leading(client: quire.Client) -> AsyncIterator[quire.Log]:
    async with await client.open_log(LOG) as log:
        yield log


async def records_of(client: quire.Client) -> list[Record]:
    return [record async for record in client.read_log(LOG)]


def header(record: Record) -> str | None:
    found = dict(record.headers).get("traceparent")
    return None if found is None else found.decode()


def context_of(span: ReadableSpan) -> trace.SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def values(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def read(headers: tuple[tuple[str, bytes | None], ...]) -> Record:
    return Record(Position(1, 0, 0), 0, 1, 0, b"", headers=headers)


def test_an_append_has_a_span_and_its_record_carries_it() -> None:
    async def scene(client: quire.Client, told: Told) -> None:
        async with leading(client) as log:
            with told.tracer.start_as_current_span("request"):
                await log.append(NewRecord(b"a", key=b"k", headers={"h": b"v"}))
        (record,) = await records_of(client)
        span = told.one("append orders")
        carried = f"00-{context_of(span).trace_id:032x}-{span_id(span)}-"
        assert (header(record) or "").startswith(carried)
        assert (record.key, record.payload, record.headers[0]) == (b"k", b"a", ("h", b"v"))
        assert span.kind is trace.SpanKind.PRODUCER
        assert span.parent is not None
        assert span.parent.span_id == context_of(told.one("request")).span_id
        assert values(span) == {
            "messaging.system": "quire",
            "messaging.operation.name": "append",
            "messaging.operation.type": "send",
            "messaging.destination.name": LOG,
            "quire.record.offset": 0,
        }

    play(scene)


def span_id(span: ReadableSpan) -> str:
    return f"{context_of(span).span_id:016x}"


def test_records_of_one_append_share_a_span() -> None:
    async def scene(client: quire.Client, told: Told) -> None:
        async with leading(client) as log:
            with told.tracer.start_as_current_span("request"):
                await log.append_many([b"a", NewRecord(b"b", key=b"k")])
        found = await records_of(client)
        span = told.one("append orders")
        assert [span_id(span) in (header(each) or "") for each in found] == [True, True]
        assert values(span)["messaging.batch.message_count"] == 2

    play(scene)


def test_an_iterator_of_records_has_a_span_if_it_has_records() -> None:
    async def scene(client: quire.Client, told: Told) -> None:
        async with leading(client) as log:
            append_many: Any = log.append_many
            with told.tracer.start_as_current_span("request"):
                assert await append_many(iter(())) == []
                assert len(await append_many(iter([b"a", b"b"]))) == 2
        assert values(told.one("append orders"))["messaging.batch.message_count"] == 2

    play(scene)


def test_submitted_records_share_a_span_that_ends_with_them() -> None:
    async def scene(client: quire.Client, told: Told) -> None:
        async with leading(client) as log:
            with told.tracer.start_as_current_span("request"):
                future = await log.submit_many([b"a", b"b"])
            assert [place.offset for place in await future] == [0, 1]
        found = await records_of(client)
        span = told.one("append orders")
        assert [span_id(span) in (header(each) or "") for each in found] == [True, True]
        assert values(span)["messaging.batch.message_count"] == 2

    play(scene)


@pytest.mark.real_time
async def test_a_table_has_one_span() -> None:
    async def scene(client: quire.Client, told: Told) -> None:
        async with leading(client) as log:
            with told.tracer.start_as_current_span("request"):
                await log.append_table(pa.table({"payload": [b"a", b"b", b"c"]}))
        found = await records_of(client)
        span = told.one("append orders")
        assert [span_id(span) in (header(each) or "") for each in found] == [True] * 3
        assert values(span)["messaging.batch.message_count"] == 3

    with MemoryCluster() as cluster:
        await played(cluster, scene, Told())


def test_outside_of_a_trace_nothing_is_added() -> None:
    async def scene(client: quire.Client, told: Told) -> None:
        async with leading(client) as log:
            await log.append(b"a")
            await log.append_many([b"b"])
        assert [each.headers for each in await records_of(client)] == [(), ()]

    told = play(scene)
    assert told.named("append orders") == []


def test_a_trace_that_is_not_sampled_goes_on_without_spans() -> None:
    async def scene(client: quire.Client, told: Told) -> None:
        async with leading(client) as log:
            with told.tracer.start_as_current_span("request"):
                await log.append(b"a")
        (record,) = await records_of(client)
        carried = trace.get_current_span(extracted(record.headers)).get_span_context()
        assert (carried.is_valid, carried.trace_flags.sampled) == (True, False)
        with MessageSpans(told.provider).process(LOG, [record]):
            assert not trace.get_current_span().get_span_context().is_valid

    assert play(scene, Told(sampler=ALWAYS_OFF)).kept.get_finished_spans() == ()


def test_a_record_keeps_the_trace_that_it_has() -> None:
    async def scene(client: quire.Client, told: Told) -> None:
        async with leading(client) as log:
            with told.tracer.start_as_current_span("relay"):
                await log.append(NewRecord(b"a", headers={"traceparent": PARENT.encode()}))
        (record,) = await records_of(client)
        assert record.headers == (("traceparent", PARENT.encode()),)

    play(scene)


def test_a_record_without_space_goes_without_its_trace() -> None:
    async def scene(client: quire.Client, told: Told) -> None:
        many = [(f"h{number}", b"") for number in range(HEADERS_MAX)]
        async with leading(client) as log:
            with told.tracer.start_as_current_span("request"):
                await log.append(NewRecord(b"a", headers=many))
                largest = await largest_payload(log)
                await log.append(bytes(largest))
                await log.append_many([bytes(largest)])
        found = await records_of(client)
        assert [header(each) for each in found] == [None] * 3

    play(scene)


async def largest_payload(log: quire.Log) -> int:
    """The size of the largest record that the log takes now."""
    with pytest.raises(EntryTooLargeError) as refused:
        await log.append(bytes(64 * 1024 * 1024))
    return refused.value.limit


def test_an_append_that_fails_ends_its_span_with_the_error() -> None:
    async def scene(client: quire.Client, told: Told) -> None:
        async with leading(client) as log:
            with told.tracer.start_as_current_span("request"):
                with pytest.raises(TailConflictError):
                    await log.append(b"a", expected_offset=7)
                with pytest.raises(TailConflictError):
                    await log.append_many([b"a"], expected_offset=7)

    for span in play(scene).named("append orders"):
        assert values(span)["error.type"] == "TailConflictError"
        assert span.status.status_code is trace.StatusCode.ERROR


def test_a_consumer_of_a_database_stands_below_the_append() -> None:
    async def scene(client: quire.Client, told: Told) -> None:
        seen: list[int] = []

        async def apply(handle: Any, records: Sequence[Record]) -> None:
            seen.append(trace.get_current_span().get_span_context().span_id)

        async with leading(client) as log:
            with told.tracer.start_as_current_span("request"):
                await log.append(b"a")
        await quire.sql.consume(
            client, LOG, MemoryTarget(MemoryDatabase()), apply, consumer="billing", follow=False
        )
        span, sent = told.one("process orders"), told.one("append orders")
        assert seen == [context_of(span).span_id]
        assert span.kind is trace.SpanKind.CONSUMER
        assert span.parent is not None
        assert span.parent.span_id == context_of(sent).span_id
        assert [link.context.span_id for link in span.links] == [context_of(sent).span_id]
        assert values(span) == {
            "messaging.system": "quire",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": LOG,
            "messaging.consumer.group.name": "billing",
        }

    play(scene)


def test_a_transaction_of_several_traces_links_to_each() -> None:
    async def scene(client: quire.Client, told: Told) -> None:
        async def apply(handle: Any, records: Sequence[Record]) -> None:
            raise ValueError("no")

        async with leading(client) as log:
            await log.append(b"plain")
            for name in ("one", "two"):
                with told.tracer.start_as_current_span(name):
                    await log.append(b"a")
        with pytest.raises(ValueError, match="no"):
            await quire.sql.consume(
                client, LOG, MemoryTarget(MemoryDatabase()), apply, consumer="billing", follow=False
            )
        span, sent = told.one("process orders"), told.named("append orders")
        assert span.parent is None
        assert [each.context.span_id for each in span.links] == [
            context_of(each).span_id for each in sent
        ]
        assert values(span)["messaging.batch.message_count"] == 3
        assert values(span)["error.type"] == "ValueError"
        assert span.status.status_code is trace.StatusCode.ERROR

    play(scene)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"garbage",
        b"\xff\xfe" * 30,
        b"00-00000000000000000000000000000000-b7ad6b7169203331-01",
        b"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        PARENT.upper().encode() + b"-x",
        PARENT.encode() * 100_000,
        None,
    ],
    ids=lambda value: str(value)[:12],
)
def test_garbage_is_no_trace(value: bytes | None) -> None:
    told = Told()
    with MessageSpans(told.provider).process(LOG, [read((("traceparent", value),))]):
        pass
    assert told.kept.get_finished_spans() == ()


def test_garbage_beside_a_trace_is_passed_over() -> None:
    headers = (
        ("traceparent", PARENT.encode()),
        ("tracestate", b"\xff=,=,,a=" * 500),
        ("tracestate", b"x" * VALUE_BYTES_MAX * 100),
        ("baggage", b"=;=,\x00" * 1000),
        ("other", None),
    )
    context = trace.get_current_span(extracted(headers)).get_span_context()
    assert f"{context.trace_id:032x}" == PARENT[3:35]


def test_links_are_bounded() -> None:
    told = Told()
    records = [
        read((("traceparent", f"00-{number:032x}-b7ad6b7169203331-01".encode()),))
        for number in range(1, 1000)
    ]
    with MessageSpans(told.provider).process(LOG, records):
        pass
    assert len(told.one("process orders").links) == LINKS_MAX


async def test_records_without_a_provider_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="give a tracer_provider"):
        quire.connect("./quire-data", trace_records=True)
