"""What tasks write and drivers adopt, called as Spark calls it: real bookies, but no session."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

import quire.sync
from quire.errors import InvalidRequestError, JobReusedError
from quire.log.manifest import capacity
from quire.log.records.batch import BATCH_BYTES_MAX, decode_batch, encode_batch, renumber_batch
from quire.spark import LogDataSource
from quire.spark import writer as writing
from quire.spark.options import WriteOptions
from quire.spark.writer import SENT_BYTES_MAX, LogStreamWriter, LogWriter, Parts


def tasks(writer: LogWriter | LogStreamWriter, partitions: list[list[bytes]]) -> list[Parts]:
    """What the tasks send to the driver."""
    found = [writer.write(iter([pa.record_batch({"payload": each})])) for each in partitions]
    return [each for each in found if isinstance(each, Parts)]


def written(cluster: str, log: str, partitions: list[list[bytes]], **options: str) -> list[bytes]:
    """Write a data frame of these partitions, and return what is in the log then."""
    writer = LogWriter(WriteOptions.parse({"cluster": cluster, "log": log, **options}))
    writer.commit(list(tasks(writer, partitions)))
    return payloads(cluster, log)


def payloads(cluster: str, log: str) -> list[bytes]:
    """What is in a log, checked for offsets without gaps."""
    with quire.sync.connect(cluster) as client:
        records = list(client.read_log(log))
    assert [record.offset for record in records] == list(range(len(records)))
    return [record.payload for record in records]


def segments(cluster: str, log: str) -> list[int]:
    """How many records each segment of a log has."""
    with quire.sync.connect(cluster) as client:
        return [each.records or 0 for each in client._logs.describe(log).segments]


def ledgers(cluster: str) -> list[int]:
    with quire.sync.connect(cluster) as client:
        return client.list_ledgers()


def test_the_largest_record_of_a_log_may_come_behind_small_ones(cluster: str) -> None:
    largest = bytes(BATCH_BYTES_MAX - 4)
    with quire.sync.connect(cluster) as client, client.open_log("sizes-appended") as log:
        log.append(largest)
    records = [b"", b"small", largest, b"", largest, bytes(70_000), bytes(10)]
    assert written(cluster, "sizes", [records, [b"last"]]) == [*records, b"last"]


def test_a_log_does_not_become_what_a_query_has_found_so_far() -> None:
    """Output mode `complete` writes its whole result again with every batch."""
    source = LogDataSource({"cluster": "c", "log": "orders", "job": "sums"})
    schema = StructType().add("payload", StringType())
    for writer in (source.writer, source.streamWriter):
        writer(schema, False)
        with pytest.raises(InvalidRequestError, match="only appended to"):
            writer(schema, True)


LARGE = [bytes([n]) * 1000 for n in range(200)]
assert sum(map(len, LARGE)) > SENT_BYTES_MAX


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_small_tasks_share_a_segment_and_keep_their_order(cluster: str, compression: str) -> None:
    log, small = f"shared-{compression}", [[b"%d" % n, b"x" * n] for n in range(7)]
    partitions = [small[0], [], small[1], LARGE, *small[2:]]
    expected = [record for partition in partitions for record in partition]
    for times in (1, 2):
        assert written(cluster, log, partitions, compression=compression) == expected * times
    if compression == "none":
        assert segments(cluster, log) == [4, 200, 10] * 2


def test_a_batch_of_small_tasks_is_written_once(cluster: str) -> None:
    given = {"cluster": cluster, "log": "once-small", "job": "small"}
    writer, before = LogStreamWriter(WriteOptions.parse(given)), ledgers(cluster)
    sent = tasks(writer, [[b"a"], [b"b", b"c"]])
    assert ledgers(cluster) == before, "tasks write no ledgers"
    for _ in range(2):
        writer.commit(list(sent), 0)
    assert payloads(cluster, "once-small") == [b"a", b"b", b"c"]
    after = ledgers(cluster)
    assert len(after) == len(before) + 1
    with pytest.raises(JobReusedError):
        writer.commit(list(tasks(writer, [[b"other"]])), 0)
    writer.abort([], 0)
    assert ledgers(cluster) == after


def test_an_encrypted_batch_is_not_sent(cluster: str, tmp_path: Path) -> None:
    """The driver needs no key, and Spark carries no plain records that it did not carry before."""
    keys = tmp_path / "keys"
    keys.write_text(f"spark {bytes(range(32)).hex()}\n")
    given = {"cluster": cluster, "log": "sealed-small", "keyFile": str(keys)}
    sent = tasks(LogWriter(WriteOptions.parse(given)), [[b"a"], [b"b"]])
    assert [(len(each.ledgers), each.batches) for each in sent] == [(1, ()), (1, ())]


def test_a_manifest_that_becomes_full_is_told(
    cluster: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, writing.__name__):
        written(cluster, "filling", [[b"a"]])
        assert not caplog.records
        monkeypatch.setattr(capacity, "WARNING_BYTES", 10)
        written(cluster, "filling", [[b"a"]])
    assert "manifest of log 'filling' has" in caplog.text
    assert "coalesce" in caplog.text


def test_a_renumbered_batch_is_the_same_but_for_its_offset() -> None:
    made = encode_batch([b"a", b"", b"ccc"], first_offset=5, epoch=1, timestamp_ms=0)
    moved = decode_batch(renumber_batch(made, 900), 1, 1)
    assert moved.payloads() == [b"a", b"", b"ccc"]
    assert (moved.header.first_offset, moved.header.epoch) == (900, 1)
    assert renumber_batch(renumber_batch(made, 900), 5) == made
