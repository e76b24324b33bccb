"""One candidate's time in office, and the fence of the changes that need the office.

A leader may believe in its office after it lost it. So a change of the metadata store that only a
leader may make is made under its fence: in one transaction with the epoch record as the leader
wrote it. The next leader replaces that record before it acts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from quire.election.ballot import Place, Term
from quire.errors import LeadershipLostError
from quire.metastore.changes import Change, Check
from quire.metastore.store import Session


class ElectionRecord(Protocol):
    """The part of an election that a leader needs."""

    async def _name_heir(self, term: Term, candidate: str | None) -> bool: ...

    async def _unchanged(self, term: Term) -> Check: ...


class Leadership:
    """One candidate's time in office."""

    def __init__(self, election: str, term: Term, session: Session, office: ElectionRecord) -> None:
        self._election = election
        self._office = office
        self._term = term
        self._session = session
        self._lost = asyncio.Event()

    def __repr__(self) -> str:
        state = "lost" if self.is_lost else "leads"
        return f"<Leadership of {self._election!r} epoch {self.epoch}, {state}>"

    @property
    def candidate(self) -> str:
        """The candidate that leads, as it named itself."""
        return self._term.candidate

    @property
    def epoch(self) -> int:
        """Greater than the epoch of every leader before: pass it on as a fencing token."""
        return self._term.epoch

    @property
    def _place(self) -> Place:
        """The candidate's record in the queue."""
        return self._term.place

    @property
    def is_lost(self) -> bool:
        """True once this leadership is known to be over."""
        return self._lost.is_set() or self._session.expired

    async def wait_lost(self) -> None:
        """Return when this leadership is known to be over: step down then.

        Raises:
            Nothing: the loss is the result.

        Cancellation: ends the waiting only.
        """
        await self._lost.wait()

    async def hand_over(self, candidate: str | None = None) -> bool:
        """Name the candidate to follow when this leadership ends.

        Nothing ends yet: close the resources to hand over, then leave the block of `Election.lead`.

        Args:
            candidate: a name that a candidate gave; None for the next in the queue.

        Returns:
            False if no such candidate stands. Then the first in the queue follows, as without this
            call.

        Raises:
            LeadershipLostError: this leadership is over.
            StoreUnavailableError: the metadata store does not answer.

        Cancellation: the candidate may be named.
        """
        self.check()
        return await self._office._name_heir(self._term, candidate)

    async def _fence(self) -> Sequence[Change]:
        """See `quire.metastore.fence.Fence`. Raises `LeadershipLostError`, and the store's errors.

        Source: docs/protocol.md, E6.
        """
        self.check()
        return [await self._office._unchanged(self._term)]

    def check(self) -> None:
        """Check that this leadership is not known to be over.

        Raises:
            LeadershipLostError: it is over.
        """
        if self.is_lost:
            raise LeadershipLostError(self._election, f"epoch {self.epoch} is over")

    def _end(self) -> None:
        """Wake the tasks that wait for the end. Called by the election."""
        self._lost.set()
