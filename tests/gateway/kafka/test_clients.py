"""Kafka's clients in front of logs: aiokafka and librdkafka, over a cluster in memory."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, Producer
from opentelemetry import propagate
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import quire
import quire.sql
from quire import NewRecord
from quire.gateway.app import Gateway
from quire.gateway.kafka.server import KafkaPort
from quire.gateway.limits import GatewayLimits
from quire.gateway.owners import Owners
from quire.gateway.place import GatewayPlace
from quire.gateway.tokens import Token
from quire.rights.guard import Guard
from quire.testing.cluster import MemoryCluster
from quire.wire.issuing import DAY
from quire.wire.tls import ServingContext, serving_context
from tests.sql.memory_target import MemoryDatabase, MemoryTarget
from tests.wire.certificates import authority

pytestmark = pytest.mark.real_time

LOG = "orders"
PARTITION = TopicPartition(LOG, 0)
SECONDS_MAX = 60.0


@asynccontextmanager
async def serving(
    client: quire.Client,
    tokens: tuple[Token, ...] = (),
    tls: ServingContext | None = None,
    limits: GatewayLimits | None = None,
    seconds: float = SECONDS_MAX,
    guard: Guard | None = None,
) -> AsyncIterator[str]:
    """A gateway for Kafka's clients; yields its address."""
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        limits = limits or GatewayLimits()
        owners = Owners(client, "http://one", limits, None, address)
        gateway = Gateway(client, owners, limits, tokens, guard)
        port = KafkaPort(gateway, GatewayPlace("http://one", address), tls)
        async with port.serve(listening), asyncio.timeout(seconds):
            try:
                yield address
            finally:
                await port.leave()
                await owners.close()


@asynccontextmanager
async def cluster() -> AsyncIterator[quire.Client]:
    with MemoryCluster() as made:
        async with quire.connect(made.store_uri) as client:
            yield client


@asynccontextmanager
async def started(made: Any) -> AsyncIterator[Any]:
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def read(address: str, count: int, **options: Any) -> list[Any]:
    """The first records of the log, as a consumer has them."""
    given = {"auto_offset_reset": "earliest", **options}
    found: list[Any] = []
    async with started(AIOKafkaConsumer(LOG, bootstrap_servers=address, **given)) as consumer:
        while len(found) < count:
            found.append(await consumer.getone())
    return found


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_records_go_through_with_all_that_they_have(compression: str | None) -> None:
    async with cluster() as client, serving(client) as address:
        producer = AIOKafkaProducer(
            bootstrap_servers=address, enable_idempotence=True, compression_type=compression
        )
        async with started(producer):
            sent = await producer.send_and_wait(
                LOG, b"one", key=b"k", headers=[("h", b"v")], timestamp_ms=5
            )
            assert (sent.offset, sent.timestamp) == (0, 5)
            waiting = [await producer.send(LOG, b"%d" % number) for number in range(300)]
            assert [(await each).offset for each in waiting] == list(range(1, 301))
            await producer.send_and_wait(LOG, None, key=b"gone")
        found = await read(address, 302)
        first, last = found[0], found[-1]
        assert (first.key, first.value, first.headers, first.timestamp) == (
            *(b"k", b"one", (("h", b"v"),), 5),
        )
        assert (last.offset, last.key, last.value) == (301, b"gone", None)
        records = [record async for record in client.read_log(LOG, recover=True)]
        assert [each.payload for each in records[1:-1]] == [b"%d" % each for each in range(300)]
        assert (records[0].key, records[0].event_time_ms) == (b"k", 5)


async def test_a_client_beyond_its_quota_waits() -> None:
    limits = GatewayLimits(client_append_records_per_second=4, client_read_records_per_second=4)
    async with cluster() as client, serving(client, limits=limits) as address:
        now = asyncio.get_running_loop().time
        async with started(AIOKafkaProducer(bootstrap_servers=address)) as producer:
            begun = now()
            for number in range(9):
                await producer.send_and_wait(LOG, b"%d" % number)
        assert now() - begun >= 0.9, "four are saved up, and the last is paid for afterwards"
        async with await client.open_log("bills") as log:
            await log.append_many([b"%d" % number for number in range(13)])
        begun = now()
        for _ in range(2):
            consumer = AIOKafkaConsumer(
                "bills", bootstrap_servers=address, auto_offset_reset="earliest"
            )
            async with started(consumer):
                assert (await consumer.getone()).value == b"0"
        assert now() - begun >= 2, "two connections of a client share its quota"


async def test_a_consumer_waits_for_what_another_program_appends() -> None:
    async with cluster() as client, serving(client) as address:
        await client.create_log(LOG)
        reading = asyncio.ensure_future(read(address, 2))
        async with await client.open_log(LOG) as log:
            await log.append_many([b"a", NewRecord(b"b", key=b"k")])
            assert [(each.offset, each.key, each.value) for each in await reading] == [
                (0, None, b"a"),
                (1, b"k", b"b"),
            ]


async def test_a_group_goes_on_where_it_committed_and_can_go_back() -> None:
    async with cluster() as client, serving(client) as address:
        async with await client.open_log(LOG) as log:
            await log.append_many([b"%d" % number for number in range(10)])
        options = {"group_id": "billing", "enable_auto_commit": False}
        consumer = AIOKafkaConsumer(
            LOG, bootstrap_servers=address, auto_offset_reset="earliest", **options
        )
        async with started(consumer):
            for _ in range(4):
                await consumer.getone()
            await consumer.commit()
        assert await (await client.log_cursors(LOG).find("billing")).offset() == 4
        (fifth,) = await read(address, 1, **options)
        assert fifth.value == b"4"
        consumer = AIOKafkaConsumer(LOG, bootstrap_servers=address, **options)
        async with started(consumer):
            await consumer.getone()
            await consumer.commit({PARTITION: 2})
        assert await (await client.log_cursors(LOG).find("billing")).offset() == 2


async def test_two_members_share_two_logs() -> None:
    async with cluster() as client, serving(client) as address:
        for name in ("a", "b"):
            await client.create_log(name)
        options = {"bootstrap_servers": address, "group_id": "g", "heartbeat_interval_ms": 100}
        one = AIOKafkaConsumer("a", "b", **options)
        async with started(one):
            async with started(AIOKafkaConsumer("a", "b", **options)) as two:
                while len(one.assignment()) != 1 or len(two.assignment()) != 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                assert one.assignment() | two.assignment() == {
                    TopicPartition("a", 0),
                    TopicPartition("b", 0),
                }
            while len(one.assignment()) != 2:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def test_topics_are_created_listed_and_deleted() -> None:
    async with cluster() as client, serving(client) as address:
        await client.create_log("no/topic")
        admin = AIOKafkaAdminClient(bootstrap_servers=address)
        await admin.start()
        try:
            topic = NewTopic("t", 1, 1, topic_configs={"retention.ms": "60000"})
            await admin.create_topics([topic])
            assert dict((await client.log_info("t")).options) == {"retention_seconds": "60.0"}
            with pytest.raises(TopicAlreadyExistsError):
                _raise_for(await admin.create_topics([topic]))
            for wrong in (
                NewTopic("wide", 3, 1),
                NewTopic("no/topic", 1, 1),
                NewTopic("compacted", 1, 1, topic_configs={"cleanup.policy": "compact"}),
            ):
                with pytest.raises(KafkaError):
                    _raise_for(await admin.create_topics([wrong]))
            assert await admin.list_topics() == ["t"]
            await admin.delete_topics(["t"])
            assert await client.list_logs() == ["no/topic"]
        finally:
            await admin.close()


def _raise_for(answer: Any) -> None:
    from aiokafka.errors import for_code

    for _, code, *_ in answer.topic_errors:
        if code:
            raise for_code(code)


async def test_offsets_of_ends_times_and_trimmed_records() -> None:
    async with cluster() as client, serving(client) as address:
        async with await client.open_log(LOG) as log:
            await log.append_many([b"%d" % number for number in range(5)])
        await client.trim_log(LOG, 2)
        consumer = AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
        async with started(consumer):
            assert await consumer.beginning_offsets([PARTITION]) == {PARTITION: 2}
            assert await consumer.end_offsets([PARTITION]) == {PARTITION: 5}
            times = await consumer.offsets_for_times({PARTITION: 1})
            assert times[PARTITION].offset == 2
            assert (await consumer.offsets_for_times({PARTITION: 2**42}))[PARTITION] is None
            consumer.assign([PARTITION])
            consumer.seek(PARTITION, 0)  # trimmed: it begins with the earliest
            assert (await consumer.getone()).offset == 2


async def test_a_token_is_needed_where_there_are_tokens() -> None:
    async with cluster() as client, serving(client, (Token("secret"),)) as address:
        sasl = {
            "bootstrap_servers": address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "any",
        }
        async with started(AIOKafkaProducer(sasl_plain_password="secret", **sasl)) as producer:
            assert (await producer.send_and_wait(LOG, b"a")).offset == 0
        for options in (
            {**sasl, "sasl_plain_password": "wrong"},
            {"bootstrap_servers": address, "request_timeout_ms": 500},
        ):
            producer = AIOKafkaProducer(**options)
            with pytest.raises(KafkaError):
                await producer.start()
            await producer.stop()


async def test_a_client_comes_over_tls_and_a_plain_one_is_refused(tmp_path: Path) -> None:
    ours = authority()
    ca, _ = ours.pair.write(tmp_path, "ca")
    files = ours.issue("gateway", None, ["127.0.0.1"], DAY).write(tmp_path, "gateway")
    async with cluster() as client, serving(client, tls=serving_context(*files)) as address:
        options = {"security_protocol": "SSL", "ssl_context": create_ssl_context(cafile=str(ca))}
        async with started(AIOKafkaProducer(bootstrap_servers=address, **options)) as producer:
            assert (await producer.send_and_wait(LOG, b"a")).offset == 0
        plain = AIOKafkaProducer(bootstrap_servers=address, request_timeout_ms=2000)
        with pytest.raises(KafkaError):
            await plain.start()
        await plain.stop()


async def test_a_producer_goes_on_with_the_next_gateway() -> None:
    """The first gateway ends in order; nothing is lost, written twice or reversed."""
    with MemoryCluster() as made:
        async with (
            quire.connect(made.store_uri) as client,
            quire.connect(made.store_uri) as other,
            serving(other) as second,
            AsyncExitStack() as stack,
        ):
            first = await stack.enter_async_context(serving(client))
            servers = f"{first},{second}"
            await client.create_log(LOG)
            producer = AIOKafkaProducer(
                bootstrap_servers=servers, enable_idempotence=True, retry_backoff_ms=20
            )
            async with started(producer):
                waiting = [await producer.send(LOG, b"%d" % number) for number in range(100)]
                await waiting[0]
                ending = asyncio.ensure_future(stack.aclose())
                waiting += [await producer.send(LOG, b"%d" % each) for each in range(100, 200)]
                offsets = [(await each).offset for each in waiting]
                await ending
            assert offsets == list(range(200))
            found = await read(second, 200)
            assert [each.value for each in found] == [b"%d" % number for number in range(200)]


async def test_librdkafka_writes_and_reads() -> None:
    async with cluster() as client, serving(client) as address:

        def work() -> list[tuple[int | None, bytes | None, bytes | None]]:
            producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
            for number in range(200):
                producer.produce(LOG, b"%d" % number, key=b"k", headers=[("h", b"v")])
            assert producer.flush(30) == 0
            consumer = Consumer(
                {
                    "bootstrap.servers": address,
                    "group.id": "g",
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                }
            )
            consumer.subscribe([LOG])
            found: list[tuple[int | None, bytes | None, bytes | None]] = []
            while len(found) < 200:
                message = consumer.poll(1.0)
                if message is not None and not message.error():
                    found.append((message.offset(), message.key(), message.value()))
            consumer.commit(asynchronous=False)
            consumer.close()
            return found

        found = await asyncio.to_thread(work)
        assert found == [(number, b"k", b"%d" % number) for number in range(200)]
        assert await (await client.log_cursors(LOG).find("g")).offset() == 200


async def test_a_trace_goes_through_in_both_directions() -> None:
    """From Kafka's client to a consumer of a database, and from an append to Kafka's client."""
    with MemoryCluster() as made:
        kept = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(kept))
        tracer = provider.get_tracer("application")
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                quire.connect(made.store_uri, tracer_provider=provider, trace_records=True)
            )
            address = await stack.enter_async_context(serving(client))
            async with started(AIOKafkaProducer(bootstrap_servers=address)) as producer:
                with tracer.start_as_current_span("from Kafka") as sent:
                    carried: dict[str, str] = {}
                    propagate.inject(carried)
                    headers = [(name, value.encode()) for name, value in carried.items()]
                    await producer.send_and_wait(LOG, b"a", headers=headers)

            async def apply(handle: object, records: object) -> None:
                return None

            target = MemoryTarget(MemoryDatabase())
            committed = asyncio.Event()
            consuming = asyncio.ensure_future(
                quire.sql.consume(
                    *(client, LOG, target, apply),
                    consumer="billing",
                    on_commit=lambda progress: committed.set(),
                )
            )
            await committed.wait()
            consuming.cancel()
            with tracer.start_as_current_span("from quire"):
                async with await client.open_log("invoices") as log:
                    await log.append(b"b")
            consumer = AIOKafkaConsumer(
                "invoices", bootstrap_servers=address, auto_offset_reset="earliest"
            )
            async with started(consumer):
                (_, found) = (await consumer.getone()).headers[0]
    spans = {span.name: span for span in kept.get_finished_spans()}
    processed, appended = spans["process orders"].parent, spans["append invoices"].context
    assert processed is not None
    assert processed.span_id == sent.get_span_context().span_id
    assert appended is not None
    assert f"{appended.span_id:016x}" in found.decode()
