"""A bookie's figures and its health, over HTTP on an address of their own.

    /metrics    the figures, in the text format of Prometheus
    /livez      200 while the loop answers
    /readyz     200 while the bookie serves and is registered; 503 with the reasons otherwise

Any other path is 404. The server is the standard library's and runs in threads; it asks the
bookie's loop, so that one answer is one moment's. A bookie that does not answer in time, or has a
failed storage, says `quire_bookie_up 0` and nothing else. The names are
listed in docs/metrics.md.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from quire.aio.tasks import Tasks
from quire.bookie import BookieInfo
from quire.errors import ConfigurationError, QuireError
from quire.metrics.families import Labels, histogram, information, single, value, values
from quire.metrics.figures import Durations
from quire.metrics.table import BY_NAME
from quire.storage.serving.metered import Meter
from quire.storage.serving.vitals import HealingFigures, Vitals
from quire.version import __version__

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

ANSWER_SECONDS: Final = 5.0
"""How long a bookie may take to say how it is."""

STORE_SECONDS: Final = 2.0
"""How long the metadata store may take to say how healing goes on; without it, the figures of the
bookie are shown alone."""

LAG_SECONDS: Final = 0.5
"""How often the lag of the loop is measured."""

_OK: Final = "200 OK"
_UNAVAILABLE: Final = "503 Service Unavailable"


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
            *_measured(self._meter),
            *_certificate(self._vitals),
            *_directories(await self._vitals.places()),
            *_healing(await self._vitals.healing(STORE_SECONDS)),
        ]


def _up(number: int) -> Metric:
    return value("quire_bookie_up", number)


def _state(info: BookieInfo) -> Iterator[Metric]:
    which = {"bookie": info.bookie, "version": __version__}
    yield information("quire_bookie_info", which)
    for name, number in (
        ("writable", info.writable),
        ("disk_free_bytes", info.disk_free_bytes),
        ("disk_total_bytes", info.disk_total_bytes),
        ("ledgers", info.ledgers),
        ("ledgers_in_limbo", info.in_limbo),
    ):
        if number is not None:
            yield value(f"quire_bookie_{name}", float(number))


def _counted(info: BookieInfo) -> Iterator[Metric]:
    return _named(info.counters)


def _named(counters: Mapping[str, int]) -> Iterator[Metric]:
    for name, number in counters.items():
        gauge = f"quire_bookie_{name}"
        if gauge in BY_NAME:
            yield value(gauge, number)
        elif f"{gauge}_total" in BY_NAME:
            yield value(f"{gauge}_total", number)


def _measured(meter: Meter) -> Iterator[Metric]:
    yield histogram(
        "quire_bookie_request_seconds", {(*key,): each for key, each in meter.requests.items()}
    )
    yield values("quire_bookie_request_bytes_total", single(meter.request_bytes))
    yield values("quire_bookie_refused_total", single(meter.refusals.counts))
    written: dict[Labels, Durations] = {
        (place, str(synced).lower()): durations
        for (place, synced), durations in meter.writes.items()
    }
    yield histogram("quire_bookie_disk_write_seconds", written)
    yield values("quire_bookie_disk_written_bytes_total", single(meter.written_bytes))
    yield value("quire_bookie_loop_lag_seconds", meter.loop_lag)
    yield from _named(meter.news.counters())


def _certificate(vitals: Vitals) -> Iterator[Metric]:
    if vitals.certificate_end is not None:
        yield value("quire_bookie_certificate_end_seconds", vitals.certificate_end())


def _directories(places: Iterable[tuple[str, str, int, int]]) -> Iterator[Metric]:
    free: dict[Labels, float] = {}
    total: dict[Labels, float] = {}
    for path, holds, free_bytes, total_bytes in places:
        free[path, holds], total[path, holds] = free_bytes, total_bytes
    yield values("quire_bookie_directory_free_bytes", free)
    yield values("quire_bookie_directory_total_bytes", total)


def _healing(figures: HealingFigures) -> Iterator[Metric]:
    for name, found in figures.items():
        yield values(name, found)


async def _measure_lag(meter: Meter) -> None:
    """Note how much later than asked for the loop runs a timer, again and again."""
    now = asyncio.get_running_loop().time
    while True:
        due = now() + LAG_SECONDS
        await asyncio.sleep(LAG_SECONDS)
        meter.loop_lag = max(0.0, now() - due)


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
    ProcessCollector(registry=registry)
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
    measuring = Tasks()
    measuring.start(_measure_lag(meter), "lag of the loop")
    serving = asyncio.create_task(asyncio.to_thread(server.serve_forever))
    try:
        yield f"{host}:{server.server_port}"
    finally:
        await measuring.stop()
        await asyncio.to_thread(server.shutdown)
        await serving
        server.server_close()
