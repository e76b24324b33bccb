"""Topics of Pulsar, and a log of DistributedLog, in real Spark, on real bookies of Apache's.

Pulsar's own libraries write two of the topics (tests/interop/Topics.java); the others are written
by quire, in the same form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

import quire.sync
from quire.bookkeeper.protobuf import encode
from quire.errors import PositionTrimmedError, UnreadableContentError
from quire.spark.bookkeeper.topics import COLUMNS
from quire.spark.errors import find_error, typed_errors
from quire.sync import SyncClient
from tests.bookkeeper.test_dlog_logs import bound, entries
from tests.bookkeeper.test_pulsar_with_java import make_topics
from tests.interop.jars import install
from tests.interop.servers import ApacheServers
from tests.support.pulsar import PAYLOADS, chunk, message

pytestmark = pytest.mark.timeout(900)  # the first time the jars are downloaded

MANAGED = "/managed-ledgers/public/default/persistent"
PASSWORD = "managed-secret"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheServers]:
    with ApacheServers(
        tmp_path_factory.mktemp("apache") / "servers", install(), "db", 3
    ) as running:
        make_topics(running)
        yield running


@pytest.fixture(scope="module")
def client(servers: ApacheServers) -> Iterator[SyncClient]:
    with quire.sync.connect(servers.writable_uri) as connected:
        yield connected


def write(client: SyncClient, entries: list[bytes], password: bytes = b"") -> tuple[int, int]:
    """Return a closed ledger, and how many entries it has."""
    with closing(client.create_ledger(password=password)) as writer:
        writer.append_many(entries)
    return writer.ledger, len(entries)


def put(client: SyncClient, path: str, value: bytes) -> None:
    async def work() -> None:
        store = client._client._store
        try:
            await store.create(path, value)
        except quire.errors.NodeExistsError:
            await store.put(path, value, (await store.get(path)).version)

    client._portal.call(work())


def register(client: SyncClient, topic: str, *ledgers: tuple[int, int]) -> None:
    parts = [(1, encode([(1, ledger), (2, entries)])) for ledger, entries in ledgers]
    put(client, f"{MANAGED}/{topic}", encode(parts))


def load(spark: SparkSession, servers: ApacheServers, topic: str, **more: str | int) -> DataFrame:
    options = {"cluster": servers.uri, "topic": topic, **more}
    return spark.read.format("bookkeeper").options(**options).load()


def in_order(frame: DataFrame) -> list[Row]:
    return sorted(
        frame.collect(), key=lambda row: (row.partition, row.ledger, row.entry, row.batch_index)
    )


def test_a_topic_of_java_is_a_frame(spark: SparkSession, servers: ApacheServers) -> None:
    frame = load(spark, servers, "closed")
    assert frame.columns == list(COLUMNS)
    rows = in_order(frame)
    assert [row.payload for row in rows] == PAYLOADS
    first, second = rows[:2]
    assert (first.topic, first.partition) == ("persistent://public/default/closed", -1)
    assert (bytes(first.key), bytes(first.ordering_key)) == (b"k1", b"\x01\x02")
    assert first.properties == {"colour": "red"}
    assert first.event_time.year == 2020
    assert (first.producer, first.sequence, first.topic_index) == ("maker", 0, None)
    assert first.message_id == f"{first.ledger}:{first.entry}:-1"
    assert (second.payload, second.event_time) == (None, None)
    assert rows[-1].topic_index == 4
    many = load(spark, servers, "closed", splitBytes=100, columns="message_id,payload")
    assert many.rdd.getNumPartitions() > len({row.ledger for row in rows}), "ledgers are cut"
    assert dict(map(tuple, many.collect())) == {row.message_id: row.payload for row in rows}
    part = load(
        spark, servers, "closed", fromPosition=rows[3].message_id, toPosition=rows[7].message_id
    )
    assert in_order(part) == rows[3:7]
    still_open = [row.payload for row in in_order(load(spark, servers, "a+b"))]
    assert still_open == PAYLOADS[: len(still_open)]
    assert len(still_open) >= len(PAYLOADS) - 1
    assert load(spark, servers, "closed, a+b").count() == len(PAYLOADS) + len(still_open)


def test_refusals_are_typed_and_tell_no_password(
    spark: SparkSession, servers: ApacheServers, client: SyncClient
) -> None:
    ledger, entries = write(client, [message("open"), message("x", (14, "RSA"))], PASSWORD.encode())
    register(client, "secret", (ledger, entries))
    with typed_errors(), pytest.raises(PySparkException, match=f"{ledger}.*") as refused:
        load(spark, servers, "secret", password=f"not-{PASSWORD}").collect()
    assert PASSWORD not in str(refused.value)
    frame = load(spark, servers, "secret", password=PASSWORD)
    with pytest.raises(UnreadableContentError, match="is encrypted") as error, typed_errors():
        frame.collect()
    assert f"topic persistent://public/default/secret: message {ledger}:1" in str(error.value)
    assert "read the topic with a Pulsar client that has the key" in str(error.value)
    assert PASSWORD not in str(error.value.__cause__)
    frame.createOrReplaceTempView("secret")
    plan = spark.sql("explain extended select * from secret").collect()[0][0]
    assert PASSWORD not in plan


Batches = dict[int, list[tuple[int, bytes]]]


def collect(batches: Batches) -> Callable[[DataFrame, int], None]:
    """A sink that knows its batches by their number."""

    def sink(frame: DataFrame, number: int) -> None:
        batches[number] = [(row.partition, bytes(row.payload)) for row in in_order(frame)]

    return sink


def run(
    spark: SparkSession, servers: ApacheServers, path: Path, batches: Batches, **more: Any
) -> None:
    """Run a query until it has read what there is now."""
    options = {"cluster": servers.uri, "topic": "flow", "maxEntriesPerTrigger": 4, **more}
    frame = spark.readStream.format("bookkeeper").options(**options).load()
    query = (
        frame.writeStream.foreachBatch(collect(batches))
        .option("checkpointLocation", str(path))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
    except PySparkException as error:
        raise (find_error(error) or error) from error
    finally:
        query.stop()


def read(batches: Batches, partition: int) -> list[bytes]:
    return [
        each for number in sorted(batches) for part, each in batches[number] if part == partition
    ]


def test_a_query_follows_a_growing_topic(
    spark: SparkSession, servers: ApacheServers, client: SyncClient, tmp_path: Path
) -> None:
    put(
        client,
        "/admin/partitioned-topics/public/default/persistent/flow",
        json.dumps({"partitions": 2}).encode(),
    )
    batches: Batches = {}
    with closing(client.create_ledger()) as first:
        register(client, "flow-partition-0", (first.ledger, 0))
        first.append_many([message(f"a{number}") for number in range(9)])
        first.append(chunk("c", "c-1", 0, 2, b"left-"))
        wait_for(client, first.ledger, 9)
        run(spark, servers, tmp_path, batches)
        assert read(batches, 0) == [b"a%d" % number for number in range(9)]
        assert len(batches) >= 3, "at most four entries each"
    second = write(client, [message("b0"), chunk("c", "c-1", 1, 2, b"right"), message("b1")])
    other = write(client, [message(f"z{number}") for number in range(3)])
    register(client, "flow-partition-0", (first.ledger, 10), second)
    register(client, "flow-partition-1", other)
    run(spark, servers, tmp_path, batches)
    expected = [*(b"a%d" % number for number in range(9)), b"b0", b"left-right", b"b1"]
    assert read(batches, 0) == expected
    assert read(batches, 1) == [b"z0", b"z1", b"z2"]
    before = len(batches)
    run(spark, servers, tmp_path, batches)
    assert len(batches) == before, "nothing is new"
    third = write(client, [message("c0")])
    register(client, "flow-partition-0", third)  # retention deleted what was not read
    with pytest.raises(PositionTrimmedError, match=r"flow.*let retention keep unread entries"):
        run(spark, servers, tmp_path, batches)
    run(spark, servers, tmp_path, batches, failOnDataLoss="false")
    assert read(batches, 0) == [*expected, b"c0"]


def wait_for(client: SyncClient, ledger: int, last: int) -> None:
    """Return when an entry of an open ledger is confirmed for readers."""
    with client.open_ledger_without_recovery(ledger) as reader:
        next(entry for entry in reader.follow(last))


def test_a_log_of_distributedlog_is_a_frame(
    spark: SparkSession, servers: ApacheServers, client: SyncClient
) -> None:
    put(client, "/dl", bound(servers=(here := f"127.0.0.1:{servers.port}"), logs=here))
    ledgers = [write(client, entries(first, 4))[0] for first in (10, 20)]
    for number, ledger in enumerate(ledgers, 1):
        text = f"5;{ledger};{number * 10};{number * 10 + 3};1;{number};1;0;0;0;{(number - 1) * 4}"
        text = text.replace("5;", f"{5 | 4 << 32};", 1)
        put(client, f"/dl/orders/<default>/ledgers/logrecs_{number:018d}", text.encode())
    frame = spark.read.format("bookkeeper").options(
        cluster=servers.uri, dlog="/dl/orders", minPartitions=4, columns="dlsn,txid,payload"
    )
    rows = sorted(map(tuple, frame.load().collect()))
    numbers = [10, 11, 12, 13, 20, 21, 22, 23]
    assert [row[1:] for row in rows] == [(number, b"%d" % number) for number in numbers]
    assert rows[0][0] == "1:0:1"
