"""A client's figures in a registry of its application.

Clients that share a registry are shown as one: counts are added up, also those of clients that
ended, so that no counter falls. Of elections the last `ELECTIONS_MAX` are remembered: the counters
of an older one begin anew. A scrape that comes from another thread asks each client's loop, and
waits `ANSWER_SECONDS` at most; a client that does not answer is shown as it was before.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final
from weakref import WeakKeyDictionary

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from quire.metrics.families import Labels, histogram, information, pairs, single, value, values
from quire.metrics.figures import Durations
from quire.metrics.meter import (
    ClientMeter,
    CountingMeter,
    ElectionFigures,
    Figures,
    FollowerFigures,
    LogFigures,
    ReaderFigures,
    WriterFigures,
)
from quire.metrics.registry import CollectorRegistry
from quire.version import __version__

ANSWER_SECONDS: Final = 2.0
"""How long a client's loop may take to answer a scrape."""

_collectors: WeakKeyDictionary[CollectorRegistry, ClientCollector] = WeakKeyDictionary()
"""The collector of each registry that an application gave to a client."""

_changing: Final = threading.Lock()
"""Held while a client comes or goes, and while a scrape looks which are there: a client that ends
meanwhile is counted once. Never held while a loop is asked."""


@contextmanager
def shown_in(registry: CollectorRegistry) -> Iterator[ClientMeter]:
    """Show a client's figures in a registry while the block runs; yields its meter."""
    client = _Shown(CountingMeter(), asyncio.get_running_loop())
    with _changing:
        collector = _collectors.get(registry)
        if collector is None:
            collector = ClientCollector()
            registry.register(collector)
            _collectors[registry] = collector
        collector.clients.append(client)
    try:
        yield client.meter
    finally:
        with _changing:
            collector.clients.remove(client)
            collector.past.merge(client.meter)


class _Shown:
    """A client's meter and the loop that owns it: only there it is looked at while the loop runs.
    A dictionary that gains a key while another thread goes through it ends a scrape.
    """

    def __init__(self, meter: CountingMeter, loop: asyncio.AbstractEventLoop) -> None:
        self.meter = meter
        self._loop = loop
        self._seen = CountingMeter(), list[Figures]()

    def seen(self) -> tuple[CountingMeter, list[Figures]]:
        """Return its counts, and the figures of its handles, as of now if the loop answers."""
        if _running() is self._loop or not self._loop.is_running():
            self._look()
        else:
            answered = threading.Event()
            with suppress(RuntimeError):  # it was closed meanwhile
                self._loop.call_soon_threadsafe(self._answer, answered)
                answered.wait(ANSWER_SECONDS)
        return self._seen

    def _answer(self, answered: threading.Event) -> None:
        self._look()
        answered.set()

    def _look(self) -> None:
        counts = CountingMeter()
        counts.merge(self.meter)
        self._seen = counts, self.meter.seen()


class ClientCollector(Collector):
    """What Prometheus asks."""

    def __init__(self) -> None:
        self.clients: list[_Shown] = []
        self.past = CountingMeter()
        """The counts of clients that ended."""

    def describe(self) -> Iterable[Metric]:
        """Say nothing: registering must not wait for a client."""
        return []

    def collect(self) -> list[Metric]:
        """Return everything that is shown."""
        total, seen = CountingMeter(), list[Figures]()
        with _changing:
            clients = list(self.clients)
            total.merge(self.past)
        for client in clients:
            counts, figures = client.seen()
            total.merge(counts)
            seen += figures
        return [
            information("quire_client_info", {"version": __version__}),
            *_counted(total),
            *_of(seen),
        ]


def _counted(meter: CountingMeter) -> Iterator[Metric]:
    yield histogram("quire_append_seconds", {(): meter.appends})
    for name, by_outcome in (
        ("quire_read_seconds", meter.fetches),
        ("quire_recovery_seconds", meter.recoveries),
        ("quire_takeover_seconds", meter.takeovers),
    ):
        yield histogram(name, {(outcome,): taken for outcome, taken in by_outcome.items()})
    requests: dict[Labels, Durations] = {
        (*key,): each for key, each in meter.store_requests.items()
    }
    yield histogram("quire_store_request_seconds", requests)
    for name, counts in (
        ("quire_append_total", meter.append_outcomes),
        ("quire_ensemble_changes_total", meter.replacements),
        ("quire_hedged_reads_total", meter.hedges),
        ("quire_subscriptions_ended_total", meter.subscription_ends),
        ("quire_elections_won_total", meter.terms_won),
        ("quire_elections_lost_total", meter.terms_lost),
    ):
        yield values(name, single(counts))
    yield value("quire_subscription_entries_total", meter.pushed_entries)


def _of(seen: list[Figures]) -> Iterator[Metric]:
    writers = [each for each in seen if isinstance(each, WriterFigures)]
    yield value("quire_window_entries", sum(each.unconfirmed for each in writers))
    yield value("quire_position_down", sum(each.positions_down for each in writers))
    followers = [each for each in seen if isinstance(each, FollowerFigures)]
    yield value("quire_subscriptions", sum(each.subscriptions for each in followers))
    logs = [each for each in seen if isinstance(each, LogFigures)]
    yield values("quire_log_epoch", pairs((each.log, each.epoch) for each in logs))
    yield values("quire_log_segments", pairs((each.log, each.segments) for each in logs))
    yield values("quire_log_records", pairs((each.log, each.next_offset) for each in logs))
    readers = [each for each in seen if isinstance(each, ReaderFigures)]
    behind = pairs((each.log, -each.next_offset) for each in readers)
    yield values("quire_reader_records", {log: -offset for log, offset in behind.items()})
    yield values(
        "quire_reader_lag_seconds", pairs((each.log, each.lag_seconds) for each in readers)
    )
    stands = [each for each in seen if isinstance(each, ElectionFigures)]
    yield values("quire_leader", pairs((each.election, float(each.leads)) for each in stands))


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
