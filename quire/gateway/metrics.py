"""A gateway's figures, with its client's and its process's, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from quire.gateway.limits import Admission
from quire.gateway.metered import GatewayMeter
from quire.gateway.owners import Owners
from quire.gateway.quotas import Quotas
from quire.metrics.families import Labels, histogram, information, value, values
from quire.metrics.figures import Durations
from quire.version import __version__


class GatewayCollector(Collector):
    """What Prometheus asks. It is asked on the gateway's own loop."""

    def __init__(
        self, meter: GatewayMeter, admission: Admission, quotas: Quotas, owners: Owners
    ) -> None:
        self._meter = meter
        self._quotas = quotas
        self._admission = admission
        self._owners = owners

    def describe(self) -> Iterable[Metric]:
        """Say nothing: the table describes the families."""
        return []

    def collect(self) -> list[Metric]:
        """Return everything that is shown."""
        which = {"address": self._owners.address, "version": __version__}
        requests: dict[Labels, Durations] = {
            (*key,): each for key, each in self._meter.requests.items()
        }
        return [
            information("quire_gateway_info", which),
            histogram("quire_gateway_request_seconds", requests),
            value("quire_gateway_requests_under_way", self._admission.requests),
            value("quire_gateway_bytes_under_way", self._admission.bytes),
            value("quire_gateway_logs", len(self._owners.written())),
            value("quire_gateway_clients_below_quota", len(self._quotas)),
            values(
                "quire_gateway_throttled_total",
                {(str(key),): number for key, number in self._quotas.throttled.items()},
            ),
        ]


def figures_of(
    meter: GatewayMeter,
    admission: Admission,
    quotas: Quotas,
    owners: Owners,
    registry: CollectorRegistry,
) -> Callable[[], tuple[bytes, str]]:
    """Return what gives the figures as text, and the media type of that text.

    Args:
        meter: what the gateway counts.
        admission: what is under way.
        quotas: what its clients may have.
        owners: the logs that it writes.
        registry: has the figures of the gateway's client already.
    """
    registry.register(GatewayCollector(meter, admission, quotas, owners))
    ProcessCollector(registry=registry)
    return lambda: (generate_latest(registry), CONTENT_TYPE_LATEST)
