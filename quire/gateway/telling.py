"""The status of one gateway, put together from its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any, Protocol

from quire.gateway.consumers import Consumers
from quire.gateway.limits import Admission
from quire.gateway.metered import GatewayMeter
from quire.gateway.owners import Owners
from quire.gateway.quotas import Direction, Quotas
from quire.gateway.status import (
    LOGS_MAX,
    ROWS_MAX,
    ErrorCount,
    GatewayStatus,
    GroupState,
    OwnedLog,
    SlowConsumer,
)
from quire.version import __version__


class KafkaFigures:
    """The figures of the port for Kafka's clients; without a port, nothing."""

    def connections(self) -> int:
        """Return how many clients are connected."""
        return 0

    def groups(self) -> Sequence[GroupState]:
        """Return the groups that this gateway coordinates, by name."""
        return ()


class StatusSource(Protocol):
    """The parts of a gateway that its status is made from."""

    quotas: Quotas
    consumers: Consumers
    kafka: KafkaFigures
    owners: Owners
    meter: GatewayMeter
    admission: Admission
    begun: float
    is_ending: bool


def status_of(gateway: StatusSource, now: float) -> dict[str, Any]:
    """Return the status of a gateway as JSON has it; `now` is the time of its loop."""
    append, read = (gateway.quotas.totals[each] for each in Direction)
    late, slow, groups = gateway.quotas.late(), gateway.consumers.slow(), gateway.kafka.groups()
    since = gateway.owners.since().items()
    return asdict(
        GatewayStatus(
            version=__version__,
            up_seconds=now - gateway.begun,
            ending=gateway.is_ending,
            requests=gateway.meter.total,
            append_bytes=append.bytes,
            append_records=append.records,
            read_bytes=read.bytes,
            read_records=read.records,
            requests_under_way=gateway.admission.requests,
            bytes_under_way=gateway.admission.bytes,
            streams=len(gateway.consumers),
            kafka_connections=gateway.kafka.connections(),
            logs=[OwnedLog(name, now - led_at) for name, led_at in islice(since, LOGS_MAX)],
            late=late[:ROWS_MAX],
            late_total=len(late),
            slow=[
                SlowConsumer(each.client, each.log, each.protocol, each.waits_seconds)
                for each in slow[:ROWS_MAX]
            ],
            slow_total=len(slow),
            groups=groups[:ROWS_MAX],
            groups_total=len(groups),
            errors=[ErrorCount(kind, count) for kind, count in gateway.meter.errors.most_common()],
        )
    )
