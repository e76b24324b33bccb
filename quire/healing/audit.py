"""One auditor's term of office: it finds ledgers that lack copies, and asks bookies for them.

It decides nothing: it writes requests, by compare-and-set, and the bookie that is asked decides
again on the ledger's record (quire/repair/assignments.py). So ten auditors at once do no harm.

A whole round reads the standing of every bookie, and the records of ledgers that may have
changed; then it applies the brakes. While bookies make copies, short rounds between only read their
open requests and the switch, and ask for more; the most urgent ledgers go first. When no bookie may
take a place, the next attempt waits for a change among the bookies, or for a pause that doubles.

Not here: the election (auditor.py), and the work of a bookie that is asked
(quire/storage/maintenance/self_repair.py).
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from quire.aio.backoff import Backoff
from quire.entry import BookieId, LedgerId
from quire.errors import ConflictError, NoSuchNodeError, OutcomeUnknownError
from quire.healing.brakes import Brake, Brakes, Missing, Silence
from quire.healing.domains import DomainWatch
from quire.healing.facts import gather_facts
from quire.healing.holes import Holes
from quire.healing.requests import Requests
from quire.healing.spread import Settling, SpreadMoves
from quire.healing.state import BookieFacts
from quire.healing.summary import Count, State, Summary, sum_up
from quire.healing.survey import Survey
from quire.healing.switch import Switch, read_switch
from quire.healing.tally import Tally, by_state
from quire.healing.urgency import Job, Work, work_of
from quire.labels import NOWHERE, Labels
from quire.ledger.domains import Candidate
from quire.ledger.metadata import Replica
from quire.ledger.records import LedgerRecords
from quire.ledger.remote import REQUEST_SECONDS
from quire.ledger.roster import Bookies
from quire.metastore.layout import BOOKIES, HEALING_SUMMARY
from quire.metastore.standing import Wish
from quire.metastore.store import MetadataStore
from quire.repair.plan import Plan, plan_places

ROUND_SECONDS: Final = 10.0
"""Between two whole rounds, when nothing happens."""

BUSY_SECONDS: Final = 1.0
"""Between two rounds while bookies make copies: they are to have the next requests soon."""

PLANNED_MAX: Final = 512
"""Ledgers that one round plans: the requests of eight bookies."""

VAIN_MAX: Final = 64
"""Ledgers without a bookie for them after which a round gives up, if it placed none."""

UNPLACED: Final = Backoff(first=ROUND_SECONDS, last=300.0)
"""Pauses before ledgers that no bookie may take are planned again, if no bookie changed."""

SUMMARY_SECONDS: Final = 30.0
"""A summary that says nothing new is as old as this at most, or as a round."""


@dataclass(slots=True)
class _View:
    """The findings of the last whole round."""

    at: float = 0.0
    facts: Sequence[BookieFacts] = ()
    registered: Sequence[BookieId] = ()
    switch: Switch = field(default_factory=Switch)
    missing: Missing = field(default_factory=Missing)
    leaving: frozenset[BookieId] = frozenset()
    brake: Brake | None = None
    is_settled: bool = False
    """Whether the bookies have been the same for the whole delay."""

    @property
    def leave(self) -> frozenset[BookieId]:
        """The bookies that others are to replace."""
        return self.missing.lost | self.leaving

    def offered(self) -> list[Candidate]:
        """Return the bookies that may take a place. A bookie with a nearly full disk, or off
        duty, is not writable.
        """
        return [
            Candidate(each.bookie, each.registered.labels, each.registered.room)
            for each in self.facts
            if each.registered and each.registered.writable and each.bookie not in self.leave
        ]

    def staying(self) -> dict[BookieId, Labels]:
        """Return where the bookies are that are registered, and not to be replaced."""
        return {
            each.bookie: each.labels
            for each in self.facts
            if each.registered and each.bookie not in self.leave
        }


class Audit:
    """See the module. Nothing runs by itself: `build`, then call `round` again and again."""

    def __init__(
        self,
        store: MetadataStore,
        records: LedgerRecords,
        bookies: Bookies,
        *,
        name: str,
        epoch: int,
        delay: float,
        clock: Callable[[], float],
        rng: random.Random,
        request_timeout: float = REQUEST_SECONDS,
    ) -> None:
        """`name` and `epoch` are shown; `delay` are the seconds until a bookie counts as lost;
        `clock` is the wall clock in seconds, for the ends of wishes and for display.
        """
        self._store = store
        self._name = name
        self._epoch = epoch
        self._clock = clock
        self._rng = rng
        self.survey: Final = Survey(records)
        self.tally: Final = Tally()
        self.requests: Final = Requests(store, records, self.tally)
        self.domains: Final = DomainWatch(self.survey.index)
        self.holes: Final = Holes(self.survey, bookies, self.requests, self.tally, request_timeout)
        self.spread: Final = SpreadMoves(self.survey, self.domains, self.requests, rng)
        self._silence = Silence(delay)
        self._settling = Settling(delay)
        self._brakes = Brakes()
        self._view: _View | None = None
        self._work = Work()
        self._queue: deque[Job] = deque()
        """The jobs that are not yet asked for."""
        self._worked_at = 0.0
        self._unplaced: dict[LedgerId, str] = {}
        """Jobs that found no bookie when they were tried last, and why. They are shown until one
        takes them, however often they are tried again: an alert waits for a lasting count.
        """
        self._tried: set[LedgerId] = set()
        """The ones among them that are not tried again before the others were."""
        self._offered: Sequence[Candidate] = ()
        self._pauses = UNPLACED.pauses()
        self._vain_until = 0.0
        self._summary: Summary | None = None
        self._summed_at = 0.0

    async def build(self) -> None:
        """Read the records of all ledgers, and show how far that is. Raises the store's errors."""
        await self._show()
        async for _ in self.survey.build():
            if self._now() - self._summed_at >= SUMMARY_SECONDS:
                await self._show()

    async def round(self) -> float:
        """Look, and ask for copies. Return in how many seconds the next round is due, at most.

        Raises the store's errors; the round may be repeated.
        """
        now, view, swept = self._now(), self._view, 0.0
        switch, names = await read_switch(self._store), await self._store.children(BOOKIES)
        ended = await self.requests.read(names)
        self.holes.check_again(ended)
        if view is None or self._is_due(view, now, switch, names):
            seconds = swept = 0.0 if view is None else now - view.at
            self.holes.check(await self.survey.look(seconds, ended))
            self._view = view = await self._look(now, switch, names)
            await self._look_at_domains(view)
            self.tally.rounds += 1
            self.tally.round_ms = round((self._now() - now) * 1000)
        else:
            for ledger in sorted(ended):
                await self.survey.read(ledger)
        self._find_work(view, now)
        if view.brake is None:
            await self.requests.withdraw(view.missing.lost)
            await self._move(view)
            await self._widen(view)
            up = {each.bookie for each in view.facts if each.registered}
            await self.holes.sweep(swept, up)
            await self.holes.fill(up)
        await self._show()
        return self._pause(view)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _is_due(self, view: _View, now: float, switch: Switch, names: Sequence[BookieId]) -> bool:
        """Whether a whole round is due."""
        seconds = view.missing.seconds
        due = view.at + (ROUND_SECONDS if seconds is None else min(ROUND_SECONDS, seconds))
        return now >= due or switch != view.switch or list(names) != list(view.registered)

    def _pause(self, view: _View) -> float:
        is_busy = view.brake is None and (len(self.requests) or self.holes.has_checks)
        due = BUSY_SECONDS if is_busy else ROUND_SECONDS
        if view.missing.seconds is not None:
            due = min(due, view.at + view.missing.seconds - self._now())
        return max(0.0, due)

    async def _look(self, now: float, switch: Switch, names: Sequence[BookieId]) -> _View:
        index = self.survey.index
        facts = await gather_facts(self._store)
        known = {each.bookie for each in facts}
        facts += [BookieFacts(each) for each in index.bookies() if each not in known]
        now_ms, holds = round(self._clock() * 1000), index.names_closed
        missing = self._silence.look(facts, now_ms, now, self._now(), holds)
        self.tally.look(self._view.missing if self._view else Missing(), missing, facts)
        brake = self._brakes.brake(facts, missing, switch, now_ms, now, holds)
        leaving = {
            each.bookie for each in facts if each.registered and each.standing.wish is Wish.DRAIN
        }
        there = {each.bookie: each.labels for each in facts if each.registered}
        is_settled = self._settling.look(there, missing.silent, now)
        return _View(now, facts, names, switch, missing, frozenset(leaving), brake, is_settled)

    async def _look_at_domains(self, view: _View) -> None:
        changed, self.survey.changed = self.survey.changed, set()
        there = (each for each in view.facts if each.bookie not in view.missing.lost)
        await self.domains.look({each.bookie: each.labels for each in there}, changed)
        self.spread.look(changed, view.offered())

    def _find_work(self, view: _View, now: float) -> None:
        """List the jobs anew after a whole round, or when all listed ones were asked for."""
        if view.at > self._worked_at or not self._queue:
            self._work = work_of(self.survey.index, view.missing.lost, view.leaving)
            self._queue, self._worked_at = deque(self._work.jobs), now
            if self._unplaced:
                jobs = {each.ledger for each in self._work.jobs}
                self._unplaced = {k: why for k, why in self._unplaced.items() if k in jobs}

    # Moves

    async def _move(self, view: _View) -> None:
        """Ask for copies of the most urgent ledgers."""
        offered = view.offered()
        self._note_offer(offered)
        if not offered:
            why = "no room: no bookie takes copies now"
            self._unplaced.update(dict.fromkeys((each.ledger for each in self._queue), why))
            return
        under_way = self.requests.replicas(but=view.leave)
        plan, later, vain = Plan(), list[Job](), 0
        for _ in range(PLANNED_MAX):
            free = [each for each in offered if self.requests.room(each.bookie, plan.wanted) > 0]
            if not self._queue or not free or self._now() < self._vain_until:
                break
            job = self._queue.popleft()
            places = under_way.get(job.ledger, ())
            if job.ledger in self._tried:
                continue
            if self._is_asked(job, places, view.leave):
                self._unplaced.pop(job.ledger, None)
                continue
            if len(free) < len(offered) and not self._may_take(job, free, view.leave):
                later.append(job)
                continue
            await self._plan(plan, job, view, free, places)
            if job.ledger in plan.unplaced:
                vain += 1
                if len(free) < len(offered):  # a bookie that is busy now may take it
                    del plan.unplaced[job.ledger]
                    later.append(job)
            else:
                self._unplaced.pop(job.ledger, None)
            if vain >= VAIN_MAX and not plan.assignments:
                break
        self._queue.extendleft(reversed(later))
        self._note_vain(plan)
        await self.requests.add(plan)

    async def _plan(
        self,
        plan: Plan,
        job: Job,
        view: _View,
        free: Sequence[Candidate],
        assigned: Sequence[Replica],
    ) -> None:
        found = await self.survey.read(job.ledger)
        if found is None:
            return
        where = {each.bookie: each.labels for each in view.facts}

        def labels(bookie: BookieId) -> Labels:
            return where.get(bookie, NOWHERE)

        plan_places(plan, self._rng, found.metadata, view.leave, free, labels, assigned)

    async def _widen(self, view: _View) -> None:
        """Ask for moves for the sake of spread, when nothing more urgent is to be asked for."""
        await self.spread.ask(
            view.offered(),
            view.staying(),
            waits=self.holes.ledgers | self.holes.bare,
            may_move=view.is_settled and not self._queue,
        )

    def _is_asked(self, job: Job, places: Sequence[Replica], leave: frozenset[BookieId]) -> bool:
        """Whether all places of a ledger that are to be given away are asked for."""
        row = self.survey.index.row(job.ledger)
        asked = len({(each.first, each.position) for each in places})
        if row is None or not asked:
            return row is None
        return asked >= sum(bookie in leave for each in row.ensembles for bookie in each)

    def _may_take(self, job: Job, free: Sequence[Candidate], leave: frozenset[BookieId]) -> bool:
        """Whether one of some bookies can take a place of a ledger, as far as the index tells."""
        row = self.survey.index.row(job.ledger)
        names = {each.bookie for each in free}
        return row is not None and any(
            names.difference(each) for each in row.ensembles if leave.intersection(each)
        )

    def _note_offer(self, offered: Sequence[Candidate]) -> None:
        """Try again what found no place, if other bookies are there now."""
        if [each[:2] for each in offered] != [each[:2] for each in self._offered]:
            self._offered = offered
            self._tried.clear()
            self._pauses.reset()
            self._vain_until = 0.0

    def _note_vain(self, plan: Plan) -> None:
        for ledger, why in plan.unplaced.items():
            kind = "no domain" if ledger in plan.no_domain else "no room"
            self._unplaced[ledger] = f"{kind} for ledger {ledger}: {why}"
            self._tried.add(ledger)
        if plan.assignments:
            self._pauses.reset()
        elif plan.unplaced:
            self._vain_until = self._now() + self._pauses.next()
        elif self._tried and not self._queue and self._now() >= self._vain_until:
            self._tried.clear()  # all of them were tried: begin again

    # The summary

    async def _show(self) -> None:
        """Write the findings, if they are news, or if the record is old."""
        summary = self._sum_up(self._view or _View())
        now, last = self._now(), self._summary
        is_news = last is None or not summary.says_the_same(last)
        if not is_news and now - self._summed_at < SUMMARY_SECONDS:
            return
        with suppress(ConflictError, OutcomeUnknownError, NoSuchNodeError):
            await self._write(summary.encode())
            self._summary, self._summed_at = summary, now

    async def _write(self, value: bytes) -> None:
        try:
            version = (await self._store.get(HEALING_SUMMARY)).version
        except NoSuchNodeError:
            await self._store.create(HEALING_SUMMARY, value)
        else:
            await self._store.put(HEALING_SUMMARY, value, version)

    def _sum_up(self, view: _View) -> Summary:
        counts: Mapping[Count, int] = {
            Count.HOLES: len(self.holes.ledgers),
            Count.UNPLACED: len(self._unplaced),
            Count.ASKED: len(self.requests),
            Count.UNREADABLE: len(self.survey.unreadable),
            Count.FEW_DOMAINS: len(self.domains.ledgers),
            Count.SPREAD: self.spread.ledgers,
        }
        why = next(iter(self._unplaced.values()), "")
        if not self.survey.is_complete:
            state = State.BUILDING
        elif view.brake is not None:
            state, why = State(str(view.brake.code)), view.brake.text
        elif len(self.requests):
            state = State.MOVING
        else:
            state = State.STUCK if self._unplaced else State.IDLE
        now_ms, oldest = round(self._clock() * 1000), self.requests.oldest_seconds()
        return sum_up(
            Summary(
                *(now_ms, self._name, self._epoch, state, why),
                ledgers=self.survey.total,
                indexed=len(self.survey.index),
                lost=tuple(sorted(view.missing.lost)),
                totals=self.tally.fields(),
                bookies=by_state(view.facts, view.missing, now_ms),
                oldest_ms=0 if oldest is None else now_ms - round(oldest * 1000),
            ),
            self._work,
            sorted(self.holes.bare),
            counts,
            sorted(self.holes.ledgers),
        )
