"""The files that OpenMessaging Benchmark is given: workloads, and drivers. Pure.

Both are YAML to the benchmark, and written as JSON, which YAML contains. Options of the driver are
those of the benchmark's own `kafka-sync.yaml` and `kafka-throughput.yaml`, except that quire's
topics have no `min.insync.replicas`: the number of its copies is an option of the gateway's logs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

UNBOUND: Final = 10_000_000
"""A rate that no system reaches: the benchmark's own workloads of highest rate ask for it."""

DRIVER: Final = "io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver"
PRODUCER: Final = {"acks": "all", "linger.ms": 1, "batch.size": 1 << 20}
CONSUMER: Final = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "max.partition.fetch.bytes": 10 << 20,
}


@dataclass(frozen=True, slots=True)
class Workload:
    """One producer and one consumer of one topic with one partition.

    Args:
        size: bytes of a message.
        rate: messages a second; 0: as many as the system takes.
    """

    size: int
    rate: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.rate < 0:
            raise ValueError(
                f"a workload of messages of {self.size} bytes, {self.rate} a second: a size is 1"
                " or more, a rate 0 (as many as the system takes) or more"
            )

    @property
    def name(self) -> str:
        """The row of the table."""
        size = f"{self.size // 1024} KiB" if self.size % 1024 == 0 else f"{self.size} B"
        return f"{size}, {f'{self.rate:,} a second' if self.rate else 'as many as it takes'}"

    def file(self, minutes: int) -> str:
        """Return the text of the workload's file.

        Args:
            minutes: how long it lasts. The benchmark counts whole minutes.
        """
        fields = {
            "name": self.name,
            "topics": 1,
            "partitionsPerTopic": 1,
            "messageSize": self.size,
            "useRandomizedPayloads": True,
            "randomBytesRatio": 0.5,
            "randomizedPayloadPoolSize": 1000,
            "subscriptionsPerTopic": 1,
            "consumerPerSubscription": 1,
            "producersPerTopic": 1,
            "producerRate": self.rate or UNBOUND,
            "consumerBacklogSizeGB": 0,
            "warmupDurationMinutes": 0,
            "testDurationMinutes": minutes,
        }
        return json.dumps(fields, indent=1)


def driver_file(name: str, addresses: Sequence[str], topic: dict[str, object]) -> str:
    """Return the text of a driver's file.

    Args:
        name: the system, in results.
        addresses: brokers as host:port.
        topic: options of a topic that the driver creates.
    """
    fields = {
        "name": name,
        "driverClass": DRIVER,
        "replicationFactor": 3,
        "topicConfig": _properties(topic),
        "commonConfig": _properties({"bootstrap.servers": ",".join(addresses)}),
        "producerConfig": _properties(PRODUCER),
        "consumerConfig": _properties(CONSUMER),
    }
    return json.dumps(fields, indent=1)


def _properties(options: dict[str, object]) -> str:
    return "".join(f"{name}={value}\n" for name, value in options.items())
