"""Spark's own Kafka source and sink in front of a gateway, as a process with a session of its own.

    python -m tests.gateway.kafka.spark_job ADDRESS CHECKPOINT STEPS JAR...

Steps are `write`, `read`, `times` and `stream`, with commas between them. The last line of the
output is what each has found, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

LOG, COPY = "orders", "orders-copy"
RECORDS = 40
SECONDS_MAX = 120


def write(spark: SparkSession, address: str, checkpoint: str) -> list[Any]:
    frame = spark.range(0, RECORDS, 1, 2)
    frame = frame.selectExpr("concat('k', id % 4) as key", "cast(id as string) as value")
    sink = frame.write.format("kafka").option("kafka.bootstrap.servers", address)
    sink.option("topic", LOG).save()
    return []


def read(spark: SparkSession, address: str, checkpoint: str, **options: str) -> list[Any]:
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", address)
    frame = source.option("subscribe", LOG).options(**options).load()
    frame = frame.selectExpr("offset", "cast(key as string)", "cast(value as string)")
    return [list(row) for row in frame.orderBy("offset").collect()]


def times(spark: SparkSession, address: str, checkpoint: str) -> list[Any]:
    """Records from a time on: one before all of them, and one behind all of them."""
    late = {"startingTimestamp": "9999999999999", "startingOffsetsByTimestampStrategy": "latest"}
    early = read(spark, address, checkpoint, startingTimestamp="1")
    return [len(early), len(read(spark, address, checkpoint, **late))]


def stream(spark: SparkSession, address: str, checkpoint: str) -> list[Any]:
    """Copy what there is; with the checkpoint of an earlier run, what came since."""
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address)
    frame = source.option("subscribe", LOG).option("startingOffsets", "earliest").load()
    sink = frame.select("key", "value").writeStream.format("kafka")
    sink = sink.option("kafka.bootstrap.servers", address).option("topic", COPY)
    query = sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    if not query.awaitTermination(SECONDS_MAX):
        raise TimeoutError(f"the query has not ended within {SECONDS_MAX} s: {query.status}")
    return [progress["numInputRows"] for progress in query.recentProgress]


STEPS: dict[str, Callable[[SparkSession, str, str], list[Any]]] = {
    "write": write,
    "read": read,
    "times": times,
    "stream": stream,
}


def main(address: str, checkpoint: str, steps: str, *jars: str) -> None:
    builder = SparkSession.builder.master("local[2]").appName("quire-kafka")
    settings = {
        "spark.jars": ",".join(jars),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        found = [STEPS[step](session, address, checkpoint) for step in steps.split(",")]
        print(json.dumps(found), flush=True)
    finally:
        session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
