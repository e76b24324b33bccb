"""Holes: entries that a bookie lacks though the ledger's record names it, and it is up.

An append that was acknowledged by a quorum may never have reached the others when the ledger was
closed. A ledger is compared soon after it was closed, and in turn:

  * first by outlines (quire/ledger/outlines.py), many ledgers in a request. A ledger that was
    just closed, or is looked at for a reason, must be proved whole by them;
  * otherwise by the lists of its bookies. A bookie that lacks entries is asked to fetch them.

A sweep compares the outlines of all closed ledgers in turn, every ten minutes at most, and checks
those that differ. It reads no record: the index tells the share of each bookie.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final

from quire.entry import BookieId, LedgerId
from quire.healing.requests import Requests
from quire.healing.survey import Survey
from quire.healing.tally import Tally
from quire.ledger.inventory import compared, lists_of, named_by
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.outlines import Verdict, judge, outlines_of, owed
from quire.ledger.roster import Bookies
from quire.outline import Outline
from quire.repair.plan import Plan, plan_holes

CHECKED_MAX: Final = 128
"""Ledgers that one round compares with the lists of bookies."""

OUTLINED_MAX: Final = 1000
"""Ledgers that one round compares with outlines: a check, and the sweep, each."""

SWEPT_PER_SECOND: Final = 100.0
"""Ledgers that are swept: a million in three hours."""

TURN_SECONDS: Final = 600.0
"""Between the beginnings of two sweeps of all ledgers, at least."""

NONE_SWEPT: Final = -1
"""Lower than any ledger."""

AT_ONCE: Final = 100
"""Ledgers that are compared before others have their turn: two milliseconds."""


class Holes:
    """See the module."""

    def __init__(
        self,
        survey: Survey,
        bookies: Bookies,
        requests: Requests,
        tally: Tally,
        request_timeout: float,
    ) -> None:
        self._survey = survey
        self._bookies = bookies
        self._requests = requests
        self._timeout = request_timeout
        self._tally = tally
        self._swept: LedgerId = NONE_SWEPT
        self._due = 0.0
        """Ledgers to be swept."""
        self._turn_began = self._rests_until = 0.0
        """By the clock of the loop."""
        self._checks: deque[LedgerId] = deque()
        self.ledgers: set[LedgerId] = set()
        """Those with holes, as of their last check."""
        self.bare: set[LedgerId] = set()
        """Those with entries that no bookie holds, though every bookie that should answered."""

    @property
    def has_checks(self) -> bool:
        """Whether there are ledgers to be checked."""
        return bool(self._checks)

    def check(self, ledgers: Iterable[LedgerId]) -> None:
        """Note ledgers to be checked."""
        self._checks.extend(ledgers)

    def check_again(self, ledgers: Collection[LedgerId]) -> None:
        """Note the ledgers with holes among some: a request for them ended."""
        self.check(sorted(self.ledgers.intersection(ledgers)))

    async def fill(self, up: Collection[BookieId]) -> None:
        """Check some ledgers, and ask the bookies that lack entries, and are up, to fetch them.

        Raises the store's errors.
        """
        some = list(islice(self._checks, OUTLINED_MAX))
        whole = {
            ledger
            for ledger, verdict in (await self._verdicts(some, up)).items()
            if verdict is Verdict.WHOLE
        }
        for _ in some:
            self._checks.popleft()
        for ledger in sorted(whole):
            self._has_none(ledger)
        rest = [each for each in some if each not in whole]
        self._checks.extendleft(reversed(rest))
        for _ in range(min(CHECKED_MAX, len(rest))):
            await self._check(self._checks[0], up)
            self._checks.popleft()

    async def sweep(self, seconds: float, up: Collection[BookieId]) -> None:
        """Compare the outlines of the next closed ledgers, and note those that differ for a check.

        Args:
            seconds: since the last sweep.
            up: bookies that are there.
        """
        now = asyncio.get_running_loop().time()
        if now < self._rests_until:
            return
        self._due = min(float(OUTLINED_MAX), self._due + seconds * SWEPT_PER_SECOND)
        count = int(self._due)
        if len(self._checks) >= CHECKED_MAX or not count:
            return  # there is enough to do
        if self._swept == NONE_SWEPT:
            self._turn_began = now
        index = self._survey.index
        some = index.after(self._swept, count)
        asked = self.ledgers & self._requests.ledgers()  # looked at again when a request ends
        closed = [each for each in some if index.is_closed(each) and each not in asked]
        verdicts = await self._verdicts(closed, up)
        for ledger, verdict in sorted(verdicts.items()):
            if verdict is Verdict.WHOLE:
                self._has_none(ledger)  # filled, and the end of the request was not seen
            elif verdict is Verdict.DIFFERS or ledger in self.ledgers:
                self.check([ledger])
        self._due -= count
        if len(some) == count:
            self._swept = some[-1]
        else:
            self._swept, self._rests_until = NONE_SWEPT, self._turn_began + TURN_SECONDS

    async def _verdicts(
        self, ledgers: Iterable[LedgerId], up: Collection[BookieId]
    ) -> dict[LedgerId, Verdict]:
        """Return what the outlines of the bookies that are up say about ledgers in the index: the
        worst of each.
        """
        owes: dict[BookieId, dict[LedgerId, Outline]] = {}
        found: dict[LedgerId, Verdict] = {}
        for number, ledger in enumerate(ledgers):
            row = self._survey.index.row(ledger)
            if row is None or not row.shape.is_closed:
                continue
            found[ledger] = Verdict.WHOLE
            for bookie in sorted(row.bookies.intersection(up)):
                owed_there = owed(row.shape.replication, *row[1:], bookie)
                owes.setdefault(bookie, {})[ledger] = owed_there
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
        wanted = {bookie: list(each) for bookie, each in owes.items()}
        told = await outlines_of(self._bookies, wanted, self._timeout)
        for bookie, each in owes.items():
            for ledger, owed_there in each.items():
                verdict = judge(owed_there, told.get(bookie, {}).get(ledger))
                found[ledger] = max(found[ledger], verdict)
        self._tally.ledgers_outlined += len(found)
        return found

    def _has_none(self, ledger: LedgerId) -> None:
        self.ledgers.discard(ledger)
        self.bare.discard(ledger)

    async def _check(self, ledger: LedgerId, up: Collection[BookieId]) -> None:
        found = await self._survey.read(ledger)
        if found is None or not found.metadata.is_closed:
            self._has_none(ledger)
            return
        self._tally.ledgers_listed += 1
        plan = await self._plan(found.metadata, set(up))
        if any(self._requests.room(bookie, {}) <= 0 for bookie in plan.wanted):
            self._checks.append(ledger)
            return
        (self.ledgers.add if plan.wanted else self.ledgers.discard)(ledger)
        (self.bare.add if plan.lost else self.bare.discard)(ledger)
        await self._requests.add(plan)

    async def _plan(self, metadata: LedgerMetadata, up: set[BookieId]) -> Plan:
        """Compare the lists of the bookies that a ledger names, as far as they answer."""
        named = named_by(metadata)
        answers = await lists_of(self._bookies, named & up, metadata.ledger, self._timeout)
        plan, found = Plan(), await compared(metadata, answers)
        plan_holes(plan, found, named - up)
        if found.lost:
            plan.wanted.clear()  # there is nothing to fetch them from
        return plan
