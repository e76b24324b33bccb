"""Holes: entries that a bookie lacks though the ledger's record names it, and it is up.

An append that was acknowledged by a quorum may never have reached the others when the ledger was
closed. The lists of the bookies tell; the bookie is asked to fetch the missing entries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import Final

from quire.entry import BookieId, LedgerId
from quire.healing.requests import Requests
from quire.healing.survey import Survey
from quire.ledger.inventory import compare, lists_of, named_by
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.roster import Bookies
from quire.repair.plan import Plan, plan_holes

CHECKED_MAX: Final = 128
"""Ledgers that one round compares with the lists of bookies."""


class Holes:
    """See the module."""

    def __init__(
        self, survey: Survey, bookies: Bookies, requests: Requests, request_timeout: float
    ) -> None:
        self._survey = survey
        self._bookies = bookies
        self._requests = requests
        self._timeout = request_timeout
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
        for _ in range(min(CHECKED_MAX, len(self._checks))):
            await self._check(self._checks[0], up)
            self._checks.popleft()

    async def _check(self, ledger: LedgerId, up: Collection[BookieId]) -> None:
        found = await self._survey.read(ledger)
        if found is None or not found.metadata.is_closed:
            self.ledgers.discard(ledger)
            self.bare.discard(ledger)
            return
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
        plan, found = Plan(), compare(metadata, answers)
        plan_holes(plan, found, named - up)
        if found.lost:
            plan.wanted.clear()  # there is nothing to fetch them from
        return plan
