"""What tasks write and drivers adopt, called as Spark calls it: real bookies, but no session."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

import quire.sync
from quire.errors import InvalidRequestError
from quire.log.records.batch import BATCH_BYTES_MAX
from quire.spark import LogDataSource
from quire.spark.options import WriteOptions
from quire.spark.writer import LogWriter


def written(cluster: str, log: str, partitions: list[list[bytes]]) -> list[bytes]:
    """Write a data frame of these partitions, and return what is in the log then."""
    writer = LogWriter(WriteOptions.parse({"cluster": cluster, "log": log}))
    writer.commit([writer.write(iter([pa.record_batch({"payload": each})])) for each in partitions])
    with quire.sync.connect(cluster) as client:
        return [record.payload for record in client.read_log(log)]


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
