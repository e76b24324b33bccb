"""Blocking twins of an election and of the leadership it grants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from quire.election.election import Election, Leader
from quire.election.leadership import Leadership
from quire.sync.portal import Portal
from quire.sync.twins import twin_of


@twin_of(Leadership, "_leadership")
class SyncLeadership:
    """Blocking twin of `Leadership`."""

    def __init__(self, portal: Portal, leadership: Leadership) -> None:
        self._portal = portal
        self._leadership = leadership

    @property
    def candidate(self) -> str:
        """See `Leadership.candidate`."""
        return self._leadership.candidate

    @property
    def epoch(self) -> int:
        """See `Leadership.epoch`."""
        return self._leadership.epoch

    @property
    def is_lost(self) -> bool:
        """See `Leadership.is_lost`."""
        return self._leadership.is_lost

    def hand_over(self, candidate: str | None = None) -> bool:
        """See `Leadership.hand_over`."""
        return self._portal.call(self._leadership.hand_over(candidate))

    def check(self) -> None:
        """See `Leadership.check`."""
        self._portal.call_plain(self._leadership.check)

    def wait_lost(self) -> None:
        """See `Leadership.wait_lost`."""
        self._portal.call(self._leadership.wait_lost())


@twin_of(Election, "_election")
class SyncElection:
    """Blocking twin of `Election`."""

    def __init__(self, portal: Portal, election: Election) -> None:
        self._portal = portal
        self._election = election

    @property
    def name(self) -> str:
        """The election's name."""
        return self._election.name

    @property
    def candidate(self) -> str:
        """The candidate's name."""
        return self._election.candidate

    @contextmanager
    def lead(self) -> Iterator[SyncLeadership]:
        """See `Election.lead`."""
        with self._portal.hold(self._election.lead()) as leadership:
            yield SyncLeadership(self._portal, leadership)

    def leader(self) -> Leader | None:
        """See `Election.leader`."""
        return self._portal.call(self._election.leader())

    def candidates(self) -> list[str]:
        """See `Election.candidates`."""
        return self._portal.call(self._election.candidates())

    def watch(self) -> Iterator[Leader | None]:
        """See `Election.watch`."""
        return self._portal.iterate(self._election.watch, lambda _: 0)
