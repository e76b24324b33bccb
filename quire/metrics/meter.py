"""What a client tells of its work, for figures: a port that is silent by default, and a counter.

A meter is told and never asked, as an observer is: it cannot change an outcome. A call costs one
bundle of appends, one fetch or one request to the store, never one entry. What goes up and down is
not told: the meter holds the handles weakly, and looks at them when it is read.

Durations are in seconds of the event loop's clock.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

from quire.metrics.figures import Durations
from quire.tracing.spans import NO_SPANS, Spans

K = TypeVar("K")

OK: Final = "ok"

ELECTIONS_MAX: Final = 1000
"""Elections whose terms are counted, each under a label of its own. A gateway stands in one for
each log that it writes and each group of Kafka, and clients choose these names: those that it won
or lost longest ago are forgotten."""

UNKNOWN: Final = "unknown"
"""The outcome of an append without an answer."""

REFUSED: Final = "refused"
"""The outcome of an append that failed before it was sent."""


class WriterFigures(NamedTuple):
    """The writer of a ledger at one moment."""

    unconfirmed: int
    """Its entries that are sent and not confirmed."""
    positions_down: int
    """Positions of its ensemble without a bookie that takes entries."""


class LogFigures(NamedTuple):
    """A log that the client leads, at one moment."""

    log: str
    epoch: int
    segments: int
    next_offset: int


class ReaderFigures(NamedTuple):
    """A reader of a log at one moment."""

    log: str
    next_offset: int
    lag_seconds: float


class ElectionFigures(NamedTuple):
    """An election that the client stands in."""

    election: str
    leads: bool


class FollowerFigures(NamedTuple):
    """The followers of a ledger at one moment."""

    subscriptions: int
    """Bookies that push its entries."""


Figures: TypeAlias = WriterFigures | LogFigures | ReaderFigures | ElectionFigures | FollowerFigures


class Watched(Protocol):
    """A handle with figures that go up and down."""

    def _figures(self) -> Figures | None:
        """Return them as they are now; None when there are none."""
        ...


class ClientMeter:
    """Told of what a client does. Does nothing; `CountingMeter` counts."""

    spans: Spans = NO_SPANS
    """Told of openings, takeovers, recoveries and rolls as they begin and end."""

    def appended(self, entries: int, seconds: float) -> None:
        """Entries of a ledger were answered together; the oldest was called so long ago."""

    def failed_append(self, outcome: str) -> None:
        """An append to a ledger failed: `unknown`, or `refused` before it was sent."""

    def replaced(self, reason: str) -> None:
        """A position of an ensemble was given to another bookie, because of an error."""

    def recovered(self, outcome: str, seconds: float) -> None:
        """A recovery of a ledger ended: `ok`, or the name of the error."""

    def took_over(self, outcome: str, seconds: float) -> None:
        """A takeover of a log ended, likewise."""

    def fetched(self, outcome: str, seconds: float) -> None:
        """A run of entries was fetched from bookies, or was not."""

    def hedged(self, won: bool) -> None:
        """A second bookie was asked because the first was slow; `won` if it answered first."""

    def pushed(self, entries: int) -> None:
        """A bookie pushed news, with so many entries that the client did not have yet."""

    def subscription_ended(self, reason: str) -> None:
        """A subscription ended by an error, of this name."""

    def asked_store(self, request: str, outcome: str, seconds: float) -> None:
        """The metadata store answered a request."""

    def elected(self, election: str) -> None:
        """This client won an election."""

    def lost(self, election: str) -> None:
        """This client lost its leadership while it wanted it."""

    def watch(self, handle: object) -> None:
        """A handle was opened. Its figures are looked at, if it is `Watched`."""


SILENT_METER: Final = ClientMeter()
"""The default: a meter that counts nothing."""


@contextmanager
def timed(tell: Callable[[str, float], None]) -> Iterator[None]:
    """Tell how the block ended, `ok` or the name of its error, and how long it took.

    A cancelled block is not told: it says nothing about the work.
    """
    now = asyncio.get_running_loop().time
    begun = now()
    try:
        yield
    except Exception as error:
        tell(type(error).__name__, now() - begun)
        raise
    tell(OK, now() - begun)


class StoreRequest(NamedTuple):
    """A request to the metadata store, and how it ended."""

    op: str
    outcome: str


class CountingMeter(ClientMeter):
    """Counts. One owner, on one loop; `merge` adds another meter's figures."""

    def __init__(self) -> None:
        self.appends = Durations()
        self.append_outcomes = Counter({OK: 0, UNKNOWN: 0, REFUSED: 0})
        """All from the start: a counter that appears with its first event shows no increase."""
        self.replacements: Counter[str] = Counter()
        self.recoveries: dict[str, Durations] = {}
        self.takeovers: dict[str, Durations] = {}
        self.fetches: dict[str, Durations] = {}
        self.hedges: Counter[str] = Counter()
        self.pushed_entries = 0
        self.subscription_ends: Counter[str] = Counter()
        self.store_requests: dict[StoreRequest, Durations] = {}
        self.terms_won: Counter[str] = Counter()
        self.terms_lost: Counter[str] = Counter()
        self._watched: WeakSet[Any] = WeakSet()

    def appended(self, entries: int, seconds: float) -> None:
        """See `ClientMeter.appended`."""
        self.appends.add(seconds, entries)
        self.append_outcomes[OK] += entries

    def failed_append(self, outcome: str) -> None:
        """See `ClientMeter.failed_append`."""
        self.append_outcomes[outcome] += 1

    def replaced(self, reason: str) -> None:
        """See `ClientMeter.replaced`."""
        self.replacements[reason] += 1

    def recovered(self, outcome: str, seconds: float) -> None:
        """See `ClientMeter.recovered`."""
        self.recoveries.setdefault(outcome, Durations()).add(seconds)

    def took_over(self, outcome: str, seconds: float) -> None:
        """See `ClientMeter.took_over`."""
        self.takeovers.setdefault(outcome, Durations()).add(seconds)

    def fetched(self, outcome: str, seconds: float) -> None:
        """See `ClientMeter.fetched`."""
        self.fetches.setdefault(outcome, Durations()).add(seconds)

    def hedged(self, won: bool) -> None:
        """See `ClientMeter.hedged`."""
        self.hedges["true" if won else "false"] += 1

    def pushed(self, entries: int) -> None:
        """See `ClientMeter.pushed`."""
        self.pushed_entries += entries

    def subscription_ended(self, reason: str) -> None:
        """See `ClientMeter.subscription_ended`."""
        self.subscription_ends[reason] += 1

    def asked_store(self, request: str, outcome: str, seconds: float) -> None:
        """See `ClientMeter.asked_store`."""
        self.store_requests.setdefault(StoreRequest(request, outcome), Durations()).add(seconds)

    def elected(self, election: str) -> None:
        """See `ClientMeter.elected`."""
        _count(self.terms_won, election)

    def lost(self, election: str) -> None:
        """See `ClientMeter.lost`."""
        _count(self.terms_lost, election)

    def watch(self, handle: object) -> None:
        """See `ClientMeter.watch`."""
        if hasattr(handle, "_figures"):
            self._watched.add(handle)

    def seen(self) -> list[Figures]:
        """Return the figures of the handles as they are now, sorted."""
        found = [figures for each in self._watched if (figures := each._figures()) is not None]
        return sorted(found, key=lambda each: (type(each).__name__, each))

    def merge(self, other: CountingMeter) -> None:
        """Add another meter's counts. Its watched figures are left out."""
        self.appends.merge(other.appends)
        self.pushed_entries += other.pushed_entries
        for mine, its in zip(self._counters(), other._counters(), strict=True):
            mine.update(its)
        for election, terms in other.terms_won.items():
            _count(self.terms_won, election, terms)
        for election, terms in other.terms_lost.items():
            _count(self.terms_lost, election, terms)
        _merge(self.recoveries, other.recoveries)
        _merge(self.takeovers, other.takeovers)
        _merge(self.fetches, other.fetches)
        _merge(self.store_requests, other.store_requests)

    def _counters(self) -> Iterator[Counter[str]]:
        yield from (self.append_outcomes, self.replacements, self.hedges, self.subscription_ends)


def _count(counts: Counter[str], election: str, terms: int = 1) -> None:
    """Count terms of an election; forget the elections that were counted longest ago."""
    counts[election] = counts.pop(election, 0) + terms  # it is the last one now
    while len(counts) > ELECTIONS_MAX:
        del counts[next(iter(counts))]


def _merge(into: dict[K, Durations], more: dict[K, Durations]) -> None:
    for key, durations in more.items():
        into.setdefault(key, Durations()).merge(durations)
