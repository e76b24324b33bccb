"""A bookie's figures and its health, over HTTP on an address of their own.

    /metrics    the figures, in the text format of Prometheus
    /livez      200 while the loop answers
    /readyz     200 while the bookie serves and is registered; 503 with the reasons otherwise

Any other path is 404. The server is the standard library's and runs in threads; it asks the
bookie's loop, so that one answer is one moment's. A bookie that does not answer in time, or has a
failed storage, says `quire_bookie_up 0` and nothing else. The names are listed in
docs/operations.md ("Metrics").
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import accumulate
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from quire.bookie import BookieInfo
from quire.errors import ConfigurationError, QuireError
from quire.storage.serving.metered import BOUNDS, Durations, Meter
from quire.storage.serving.vitals import Vitals
from quire.version import __version__

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

ANSWER_SECONDS: Final = 5.0
"""How long a bookie may take to say how it is."""

MAY_FALL: Final = ("mending_ledgers_left", "standing_away", "standing_draining")
"""Figures among a bookie's counters that are gauges: they go down as well."""

_OK: Final = "200 OK"
_UNAVAILABLE: Final = "503 Service Unavailable"

_BUCKETS: Final = (*(f"{bound:g}" for bound in BOUNDS), "+Inf")


class BookieCollector(Collector):
    """What Prometheus asks. `collect` is called in another thread than the loop's."""

    def __init__(self, vitals: Vitals, meter: Meter, loop: asyncio.AbstractEventLoop) -> None:
        self._vitals = vitals
        self._meter = meter
        self._loop = loop

    def describe(self) -> Iterable[Metric]:
        """Say nothing: registering must not wait for the bookie."""
        return []

    def collect(self) -> list[Metric]:
        """Return everything that is shown, as of one moment."""
        looking = asyncio.run_coroutine_threadsafe(self._look(), self._loop)
        try:
            return looking.result(ANSWER_SECONDS)
        except (QuireError, TimeoutError):
            looking.cancel()
            return [_up(0)]

    async def _look(self) -> list[Metric]:
        bookie = self._vitals.bookie
        if bookie is None:
            return [_up(0)]
        info = await bookie.info()
        return [
            _up(1),
            *_state(info),
            *_counted(info),
            *_requests(self._meter),
            _refused(self._meter),
            *_disk(self._meter),
        ]


def _up(value: int) -> Metric:
    return GaugeMetricFamily("quire_bookie_up", "Whether the bookie answers.", value)


def _state(info: BookieInfo) -> Iterator[Metric]:
    which = {"bookie": info.bookie, "version": __version__}
    yield InfoMetricFamily("quire_bookie", "Which bookie this is.", which)
    for name, value, meaning in (
        ("writable", info.writable, "Whether it takes new entries."),
        ("disk_free_bytes", info.disk_free_bytes, "Room on the disk that is fullest."),
        ("disk_total_bytes", info.disk_total_bytes, "Size of that disk."),
        ("ledgers", info.ledgers, "Ledgers of which it stores something."),
        ("ledgers_in_limbo", info.in_limbo, "Ledgers of which it may have lost something."),
    ):
        if value is not None:
            yield GaugeMetricFamily(f"quire_bookie_{name}", meaning, float(value))


def _counted(info: BookieInfo) -> Iterator[Metric]:
    for name, value in info.counters.items():
        meaning = "See docs/operations.md, Counters."
        family = GaugeMetricFamily if name in MAY_FALL else CounterMetricFamily
        yield family(f"quire_bookie_{name}", meaning, value)


def _requests(meter: Meter) -> Iterator[Metric]:
    taken = HistogramMetricFamily(
        "quire_bookie_request_seconds",
        "From a request's arrival to its answer.",
        labels=("request", "outcome"),
    )
    for (request, outcome), durations in meter.requests.items():
        _fill(taken, (request, outcome), durations)
    size = CounterMetricFamily(
        "quire_bookie_request_bytes", "Runs that were stored or read.", labels=("request",)
    )
    for request, count in meter.request_bytes.items():
        size.add_metric((request,), count)
    yield from (taken, size)


def _refused(meter: Meter) -> Metric:
    found = CounterMetricFamily(
        "quire_bookie_refused", "Peers that were refused or dropped.", labels=("reason",)
    )
    for reason, count in meter.refusals.counts.items():
        found.add_metric((reason,), count)
    return found


def _disk(meter: Meter) -> Iterator[Metric]:
    taken = HistogramMetricFamily(
        "quire_bookie_disk_write_seconds",
        "Writes, those with a sync in the same step apart, and syncs.",
        labels=("place", "synced"),
    )
    for (place, synced), durations in meter.writes.items():
        _fill(taken, (place, str(synced).lower()), durations)
    size = CounterMetricFamily(
        "quire_bookie_disk_written_bytes", "Bytes written, by directory.", labels=("place",)
    )
    for place, count in meter.written_bytes.items():
        size.add_metric((place,), count)
    yield from (taken, size)


def _fill(family: HistogramMetricFamily, labels: tuple[str, str], durations: Durations) -> None:
    buckets = list(zip(_BUCKETS, map(float, accumulate(durations.counts)), strict=True))
    family.add_metric(labels, buckets, durations.seconds)


class _Server(ThreadingMixIn, WSGIServer):
    """Answers each request in a thread of its own, which does not outlive the process."""

    daemon_threads = True
    address_family = socket.AF_INET


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Quiet(WSGIRequestHandler):
    """A probe a second is no news."""

    timeout = ANSWER_SECONDS
    """A peer that is silent keeps a thread for so long."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _application(vitals: Vitals, meter: Meter, loop: asyncio.AbstractEventLoop) -> WSGIApplication:
    registry = CollectorRegistry()
    registry.register(BookieCollector(vitals, meter, loop))
    figures: WSGIApplication = make_wsgi_app(registry)

    def answer(environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        match environment.get("PATH_INFO"):
            case "/metrics":
                return figures(environment, start)
            case "/livez":
                return _tell(start, *_alive(loop))
            case "/readyz":
                return _tell(start, *_ready(vitals, loop))
            case _:
                return _tell(start, "404 Not Found", {"paths": ["/metrics", "/livez", "/readyz"]})

    return answer


def _tell(start: StartResponse, status: str, body: Mapping[str, object]) -> Iterable[bytes]:
    start(status, [("Content-Type", "application/json"), ("Cache-Control", "no-store")])
    return [json.dumps(body).encode() + b"\n"]


def _alive(loop: asyncio.AbstractEventLoop) -> tuple[str, Mapping[str, object]]:
    try:
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(ANSWER_SECONDS)
    except TimeoutError:
        return _UNAVAILABLE, {"status": "stuck", "reasons": ["the loop does not answer"]}
    return _OK, {"status": "alive"}


def _ready(vitals: Vitals, loop: asyncio.AbstractEventLoop) -> tuple[str, Mapping[str, object]]:
    asking = asyncio.run_coroutine_threadsafe(vitals.reasons(ANSWER_SECONDS), loop)
    try:
        reasons = asking.result(2 * ANSWER_SECONDS)
    except TimeoutError:
        asking.cancel()
        reasons = ["the loop does not answer"]
    if reasons:
        return _UNAVAILABLE, {"status": "not ready", "reasons": reasons}
    return _OK, {"status": "ready"}


@asynccontextmanager
async def serve_metrics(vitals: Vitals, meter: Meter, host: str, port: int) -> AsyncIterator[str]:
    """Show a bookie's figures and health on host:port while the block runs; yields the address with
    the real port.

    Raises `ConfigurationError` when the address cannot be used.
    """
    plain = host.strip("[]")
    application = _application(vitals, meter, asyncio.get_running_loop())
    kind = _Server6 if ":" in plain else _Server
    try:
        server = make_server(plain, port, application, kind, _Quiet)
    except (OSError, UnicodeError, OverflowError) as error:  # for a name that cannot be an address
        reason = getattr(error, "strerror", None) or "not a host"
        raise ConfigurationError(
            f"cannot show metrics on {host}:{port}: {reason}; choose another port, or "
            "port 0 for any that is free"
        ) from error
    serving = asyncio.create_task(asyncio.to_thread(server.serve_forever))
    try:
        yield f"{host}:{server.server_port}"
    finally:
        await asyncio.to_thread(server.shutdown)
        await serving
        server.server_close()
