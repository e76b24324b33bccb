"""Kafka's own Java client, for every system that serves it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers.java_client import SOURCES, JavaBench, JavaLogs
from quire.cluster.zookeeper.java import find_java
from tests.interop.jars import install_kafka, of_pyspark, program
from tests.interop.servers import JavaProgram

SOURCE: Final = SOURCES / "KafkaBench.java"


def java(*words: object) -> list[str]:
    """Return a command of a JVM with Kafka's jars and Janino."""
    beside = map(of_pyspark, ("janino", "commons-compiler"))
    path = ":".join([f"{install_kafka()}/*", *map(str, beside)])
    return [str(find_java()), "-Xmx1g", "-cp", path, *map(str, words)]


class KafkaClient(JavaLogs):
    """A JVM with a producer and a consumer; a log is a topic."""

    def __init__(self, servers: Sequence[str], log: Path) -> None:
        """`servers` are host:port; `log` takes what the JVM says."""
        command = java(*program(SOURCE), ",".join(servers))
        super().__init__(JavaBench(JavaProgram(command, log)))
