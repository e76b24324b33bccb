"""Looks at a cluster, again and again, and keeps a day of figures. The work of a look is bounded.

Every look asks all bookies, and some of the logs: the quickest ones, and others in turn. So a
cluster of 1,000 logs is seen whole within two minutes, and costs its store as much as a small one.
A page never waits for a look: it shows the last one, with its age.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Final, NamedTuple

from quire.aio.tasks import Tasks
from quire.aio.timing import time_limit
from quire.bookie import BookieInfo
from quire.client import Client
from quire.console.asking import GatewayAsker
from quire.console.gateways import GatewayLooks
from quire.console.looks import (
    FIGURES,
    LEDGERS,
    LOGS,
    RECORDS,
    USED,
    BookiePace,
    ClusterLook,
    LogLook,
)
from quire.console.ring import Point, Series
from quire.entry import BookieId
from quire.errors import (
    BookieUnavailableError,
    CorruptRecordError,
    InvalidRequestError,
    NoSuchNodeError,
    QuireError,
)
from quire.gateway.presence import known_gateways
from quire.healing.state import LOST_SECONDS, BookieFacts
from quire.healing.verdict import ENSEMBLE, ClusterFacts
from quire.metastore.layout import MOVES, moves_path
from quire.metastore.store import MetadataStore
from quire.repair.assignments import Assignments
from quire.view.followers import ENTRIES as PUSHED
from quire.view.gather import gather_clients, gather_cluster, gather_log, gather_logs
from quire.view.values import LogView

EVERY_SECONDS: Final = 5.0

LOOK_SECONDS: Final = 20.0
"""A look that takes longer is given up, and its reason is shown."""

QUICK_LOGS: Final = 16
"""The logs that grew quickest are looked at in every look."""

LOGS_IN_TURN: Final = 48
"""Further logs of a look."""

BOOKIE_SECONDS: Final = 3.0
"""A bookie that takes longer to answer counts as silent."""

ANSWERS_KEPT: Final = 5
"""A bookie's pace is the median of so many answers: one pause makes no bookie slow."""

COUNTERS_KEPT: Final = 12
"""A minute of a bookie's counters: the pace of its journal is over so long."""

BATCHES, MICROSECONDS = "journal_batches", "journal_microseconds"
ENTRIES, P99, WAITING = "journal_entries", "journal_p99_microseconds", "journal_waiting"

SERIES_MAX: Final = 2_000
"""Logs with a day of figures, 4.6 KB each."""

SHOWN_DAYS: Final = 10
"""The quickest logs have their day in a snapshot."""

_log = logging.getLogger(__name__)


class Counted(NamedTuple):
    """A bookie's counters at a time."""

    at_ms: int
    counters: Mapping[str, int]

    def since(self, before: Counted, name: str) -> int:
        """Return how much a counter grew."""
        return self.counters.get(name, 0) - before.counters.get(name, 0)

    def follows(self, before: Counted) -> bool:
        """Whether the bookie went on: its counters did not fall."""
        return self.since(before, BATCHES) >= 0 and self.since(before, MICROSECONDS) >= 0


class Sampler:
    """See the module. `start` and `close`; `snapshot` at any time."""

    def __init__(
        self,
        client: Client,
        clock: Callable[[], float],
        *,
        lost_seconds: float = LOST_SECONDS,
        ensemble: int = ENSEMBLE,
        gateway_token: str = "",
    ) -> None:
        self._asker = GatewayAsker(gateway_token)
        self._gateways = GatewayLooks(self._asker.ask)
        self._client = client
        self._store = client._store
        self._clock = clock
        self._lost_seconds = lost_seconds
        self._ensemble = ensemble
        self._tasks = Tasks()
        self._turn = ""
        """The last log that was looked at in turn."""
        self._answers: dict[BookieId, deque[float]] = {}
        self._counters: dict[BookieId, deque[Counted]] = {}
        self._figures: dict[str, Series] = {each: Series() for each in FIGURES}
        self._ends: dict[str, Series] = {}
        now = self._now_ms()
        self.snapshot = ClusterLook(now, client.store_uri, since_ms=now)

    def _now_ms(self) -> int:
        return round(self._clock() * 1000)

    def start(self) -> None:
        """Begin to look."""
        self._tasks.start(self._run(), "console sampler")

    async def close(self) -> None:
        """Stop."""
        await self._tasks.stop()
        await self._asker.close()

    async def _run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(EVERY_SECONDS)

    async def look(self) -> ClusterLook:
        """Look once. A part that fails keeps its last values, and the snapshot says why."""
        try:
            async with time_limit(LOOK_SECONDS):
                await self._look()
        except QuireError as error:
            self._fail(str(error))
        except TimeoutError:
            self._fail(f"the cluster did not answer within {LOOK_SECONDS:g} s")
        except Exception as error:
            _log.exception("a look of the console failed")
            self._fail(f"a defect of the console: {error!r}")
        return self.snapshot

    def _fail(self, why: str) -> None:
        if not self.snapshot.trouble:
            _log.warning("the console cannot look at the cluster: %s", why)
        self.snapshot = replace(self.snapshot, at_ms=self._now_ms(), trouble=why)

    async def _look(self) -> None:
        now = self._now_ms()
        taken: dict[BookieId, float] = {}
        facts = await gather_cluster(
            self._client,
            now,
            lost_seconds=self._lost_seconds,
            ensemble=self._ensemble,
            ask=partial(self._ask, taken),
        )
        paces = self._paces(facts, taken, now)
        self.snapshot = replace(
            self.snapshot, at_ms=now, facts=facts, facts_ms=now, paces=paces, trouble=""
        )
        names, clients, moves, places = await asyncio.gather(
            self._client.list_logs(),
            gather_clients(self._client),
            read_moves(self._store),
            known_gateways(self._client),
        )
        known = set(names)
        kept = {name: each for name, each in self.snapshot.logs.items() if name in known}
        for name in sorted(self._ends.keys() - known):
            del self._ends[name]
        self.snapshot = replace(
            self.snapshot, log_names=names, logs=kept, clients=clients, moves=moves
        )
        found, gateways = await asyncio.gather(
            gather_logs(self._client, self._chosen(names)),
            self._gateways.look(places, self._now_ms),
        )
        logs = {**kept, **{each.name: self._look_of(each) for each in found}}
        self._keep(facts, logs, now)
        self.snapshot = replace(
            self.snapshot,
            logs=logs,
            gateways=gateways,
            figures={name: series.day() for name, series in self._figures.items()},
            log_days={name: self._ends[name].day() for name in self._quick(SHOWN_DAYS)},
        )

    async def _ask(self, taken: dict[BookieId, float], bookie: BookieId) -> BookieInfo:
        """Ask a bookie how it is, and note how long it took."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with time_limit(BOOKIE_SECONDS):
                answer = await self._client.bookie_info(bookie)
        except TimeoutError:
            late = f"it did not answer within {BOOKIE_SECONDS:g} s"
            raise BookieUnavailableError(bookie, late) from None
        taken[bookie] = loop.time() - begun
        return answer

    async def look_at(self, name: str) -> LogLook:
        """Look at one log now. Raises `NoSuchLogError` and the store's errors."""
        return self._look_of(await gather_log(self._client, name))

    def day_of(self, name: str) -> Sequence[Point]:
        """Return the ends of a log over a day."""
        series = self._ends.get(name)
        return () if series is None else series.day()

    def _chosen(self, names: Sequence[str]) -> list[str]:
        """Return the logs of the next look: the quickest ones, and others in turn."""
        quick = self._quick(QUICK_LOGS)
        later = [name for name in names if name > self._turn]
        turn = (later + [name for name in names if name <= self._turn])[:LOGS_IN_TURN]
        if turn:
            self._turn = turn[-1]
        return sorted({*quick, *turn})

    def _quick(self, count: int) -> list[str]:
        rates = {name: series.rate() or 0.0 for name, series in self._ends.items()}
        return sorted(rates, key=lambda name: (-rates[name], name))[:count]

    def _look_of(self, view: LogView) -> LogLook:
        at_ms, end = self._now_ms(), view.end_offset
        if end is None or (view.name not in self._ends and len(self._ends) >= SERIES_MAX):
            return LogLook(view, at_ms)
        series = self._ends.setdefault(view.name, Series())
        series.add(at_ms / 1000, end)
        return LogLook(view, at_ms, series.rate())

    def _paces(
        self, facts: ClusterFacts, taken: Mapping[BookieId, float], now: int
    ) -> dict[BookieId, BookiePace]:
        found: dict[BookieId, BookiePace] = {}
        for each in facts.bookies:
            answers = self._answers.setdefault(each.bookie, deque(maxlen=ANSWERS_KEPT))
            if each.bookie in taken:
                answers.append(taken[each.bookie])
            else:
                answers.clear()
            found[each.bookie] = self._pace(each, answers, now)
        for gone in sorted(self._answers.keys() - found.keys()):
            del self._answers[gone]
            self._counters.pop(gone, None)
        return found

    def _pace(self, facts: BookieFacts, answers: Sequence[float], now: int) -> BookiePace:
        pace = BookiePace(median(answers) if answers else None)
        if facts.info is None:
            self._counters.pop(facts.bookie, None)
            return pace
        seen = self._counters.setdefault(facts.bookie, deque(maxlen=COUNTERS_KEPT))
        seen.append(Counted(now, facts.info.counters))
        if not seen[-1].follows(seen[0]):  # it began anew
            seen.clear()
            seen.append(Counted(now, facts.info.counters))
        return with_journal(pace, seen[0], seen[-1])

    def _keep(self, facts: ClusterFacts, logs: Mapping[str, LogLook], now: int) -> None:
        used = used_bytes(facts)
        ends = [end for each in logs.values() if (end := each.view.end_offset) is not None]
        at = now / 1000
        if used is not None:
            self._figures[USED].add(at, used)
        self._figures[RECORDS].add(at, sum(ends))
        self._figures[LOGS].add(at, len(self.snapshot.log_names))
        if facts.summary is not None and facts.summary.ledgers:
            self._figures[LEDGERS].add(at, facts.summary.ledgers)


def with_journal(pace: BookiePace, before: Counted, now: Counted) -> BookiePace:
    """Return a pace with the journal's part, from a bookie's counters at two times. Pure.

    A bookie that does not count has none.
    """
    if now.at_ms <= before.at_ms or BATCHES not in now.counters:
        return pace
    batches, spent = now.since(before, BATCHES), now.since(before, MICROSECONDS)
    passed = (now.at_ms - before.at_ms) / 1000
    pace = replace(
        pace,
        journal_seconds=spent / batches / 1e6 if batches else None,
        batches_per_second=batches / passed,
    )
    if PUSHED in now.counters:
        pace = replace(pace, pushed_per_second=now.since(before, PUSHED) / passed)
    if ENTRIES not in now.counters:  # an older program
        return pace
    return replace(
        pace,
        entries_per_second=now.since(before, ENTRIES) / passed,
        journal_p99=now.counters[P99] / 1e6 if now.counters[BATCHES] else None,
        waiting=now.counters[WAITING],
    )


async def read_moves(store: MetadataStore) -> Mapping[BookieId, Assignments]:
    """Return the open requests for copies by bookie. Raises the store's errors; a record that
    cannot be read is left out.
    """
    found: dict[BookieId, Assignments] = {}
    for bookie in await store.children(MOVES):
        with suppress(NoSuchNodeError, CorruptRecordError, InvalidRequestError):
            path = moves_path(bookie)
            asked = Assignments.decode(path, (await store.get(path)).value)
            if asked.open:
                found[bookie] = asked
    return found


def used_bytes(facts: ClusterFacts) -> float | None:
    """Return the bytes used on all disks, as far as the bookies say; None if none does. Pure."""
    disks = [
        disk.total_bytes - disk.free_bytes for each in facts.bookies for disk in each.disks
    ] or [
        each.info.disk_total_bytes - each.info.disk_free_bytes
        for each in facts.bookies
        if each.info is not None
    ]
    return sum(disks) if disks else None
