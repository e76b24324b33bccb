"""Moves for the sake of spread: copies of narrow ledgers go to bookies in other domains.

A ledger becomes narrow when healing made copies where it could, because a rack was away, and when
bookies got other labels. Its copies are whole and its bookies are there, so nothing is urgent. A
move must raise the ledger's measure (quire/ledger/spreading.py), so moves end.

It goes last, and fights no other reason: a ledger that names a bookie which is missing, or leaves,
waits, as does one with holes or with an open request. The auditor lets moves begin only when no
ledger waits for another reason, and when the bookies and their labels have been the same for the
whole delay. A bookie has few such requests at a time, so a loss finds room; the next ones follow as
soon as some end. A bookie may refuse a move, to keep what acks count; it is not asked again until
the ledger's bookies or the offer of bookies change, or for an hour.

Not here: which ledgers may be narrow (domains.py).
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Final

from quire.entry import BookieId, LedgerId
from quire.healing.domains import DomainWatch
from quire.healing.index import Row
from quire.healing.requests import Requests
from quire.healing.survey import Survey
from quire.labels import Labels
from quire.ledger.domains import Candidate
from quire.ledger.metadata import Fragment, Replica
from quire.ledger.spreading import wider
from quire.repair.assignments import Assignment
from quire.repair.plan import Plan

LOOKED_AT_MAX: Final = 128
"""Narrow ledgers that one round looks at: some milliseconds each, for many bookies."""

REQUESTS_MAX: Final = 8
"""Requests that a bookie has open at most when it is asked for the sake of spread."""

BLOCKED_MAX: Final = 16
"""Ledgers that one round looks at in vain, because their targets have so many requests open."""

AGAIN_SECONDS: Final = 3600.0
"""After which everything is decided on anew: a request may have been taken back."""

Offer = frozenset[tuple[BookieId, Labels]]


class Settling:
    """Since when the bookies are as they are, by the clock of the loop."""

    def __init__(self, delay: float) -> None:
        """`delay` are the seconds that bookies must have been the same."""
        self._delay = delay
        self._seen: Offer | None = None
        self._since = 0.0

    def look(
        self, there: Mapping[BookieId, Labels], silent: Collection[BookieId], now: float
    ) -> bool:
        """Take in where the registered bookies are, and which are silent. Tell whether they have
        been the same for the whole delay.
        """
        seen = frozenset(there.items())
        if silent or seen != self._seen:
            self._seen, self._since = seen, now
            return False
        return now - self._since >= self._delay


class SpreadMoves:
    """See the module."""

    def __init__(
        self, survey: Survey, domains: DomainWatch, requests: Requests, rng: random.Random
    ) -> None:
        self._survey = survey
        self._domains = domains
        self._requests = requests
        self._rng = rng
        self._queue: deque[LedgerId] = deque()
        self._best: set[LedgerId] = set()
        """Narrow ledgers that no move makes wider, as the bookies are."""
        self._asked: dict[LedgerId, Sequence[Fragment]] = {}
        """The fragments of each ledger with a move that was asked for, as they were."""
        self._offer: Offer = frozenset()
        self._begun = 0.0

    @property
    def ledgers(self) -> int:
        """How many ledgers a move may make wider."""
        return len(self._domains.narrow) - len(self._best)

    def look(self, changed: Collection[LedgerId], offered: Sequence[Candidate]) -> None:
        """Begin a whole round.

        Args:
            changed: ledgers that were read or dropped since the last one.
            offered: bookies that may take places.
        """
        narrow, offer = self._domains.narrow, frozenset(each[:2] for each in offered)
        now = asyncio.get_running_loop().time()
        if offer != self._offer or now - self._begun >= AGAIN_SECONDS:
            self._offer, self._begun = offer, now
            self._best.clear()
            self._asked.clear()
        self._best.difference_update(changed)
        self._best &= narrow
        self._asked = {each: was for each, was in self._asked.items() if each in narrow}
        new = sorted(narrow.difference(self._best, self._queue))
        short = self._domains.ledgers
        self._queue.extendleft(each for each in reversed(new) if each in short)
        self._queue.extend(each for each in new if each not in short)

    async def ask(
        self,
        offered: Sequence[Candidate],
        there: Mapping[BookieId, Labels],
        *,
        waits: Collection[LedgerId],
        may_move: bool,
    ) -> None:
        """Look at some narrow ledgers, and ask for moves of them.

        Args:
            offered: bookies that may take places.
            there: where the bookies are that are registered, and stay.
            waits: ledgers that another reason has something to do for.
            may_move: whether anything is asked for. Else the ledgers are only decided on.

        Raises the store's errors.
        """
        plan, under_way = Plan(), self._requests.replicas(but=())
        blocked: list[LedgerId] = []
        for ledger in list(islice(self._queue, LOOKED_AT_MAX)):
            is_full = may_move and not any(self._is_free(each.bookie, plan) for each in offered)
            if is_full or len(blocked) == BLOCKED_MAX:
                break
            self._queue.popleft()
            row = self._survey.index.row(ledger)
            if row is None or ledger not in self._domains.narrow or not row.bookies <= there.keys():
                continue
            if not self._moves(row, offered, there):
                self._best.add(ledger)
            elif not may_move or ledger in waits or ledger in under_way:
                continue
            elif not await self._ask(plan, ledger, offered, there):
                blocked.append(ledger)
        self._queue.extend(blocked)
        await self._requests.add(plan)

    async def _ask(
        self,
        plan: Plan,
        ledger: LedgerId,
        offered: Sequence[Candidate],
        there: Mapping[BookieId, Labels],
    ) -> bool:
        """Decide again on the newest record. Tell whether no busy bookie was in the way."""
        found, row = await self._survey.read(ledger), self._survey.index.row(ledger)
        if found is None or row is None or not row.bookies <= there.keys():
            return True
        if self._asked.get(ledger) == found.metadata.fragments:
            self._best.add(ledger)
            return True
        moves = self._moves(row, offered, there)
        if not all(self._is_free(each.new, plan) for each in moves):
            return False
        if moves:
            self._asked[ledger] = found.metadata.fragments
        for each in moves:
            plan.ask(each.new, Assignment(ledger, (each,)))
        return True

    def _is_free(self, bookie: BookieId, plan: Plan) -> bool:
        return self._requests.room(bookie, plan.wanted) > 0 and (
            self._requests.open_of(bookie) + len(plan.wanted.get(bookie, ())) < REQUESTS_MAX
        )

    def _moves(
        self, row: Row, offered: Sequence[Candidate], there: Mapping[BookieId, Labels]
    ) -> list[Replica]:
        """Return a move of each fragment that has one."""
        moves = []
        for first, ensemble in zip(row.firsts, row.ensembles, strict=True):
            members = [Candidate(each, there[each]) for each in ensemble]
            shape = row.shape
            move = wider(self._rng, shape.replication, shape.placement, members, offered)
            if move is not None:
                position, new = move
                moves.append(Replica(first, position, ensemble[position], new.bookie, new.labels))
        return moves
