"""The counters of an auditor since it was elected, and the bookies by state as it sees them. Pure.

The auditor reports both in its summary. Another auditor begins at 0, as a process does that starts
again: Prometheus knows such counters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from quire.healing.brakes import Missing
from quire.healing.state import BookieFacts, State, state_of


@dataclass(slots=True)
class Tally:
    """Counters since the auditor was elected. Times are milliseconds of its own clock."""

    rounds: int = 0
    """Whole rounds: looks at all bookies, and at the ledgers that may have changed."""
    round_ms: int = 0
    """How long the last one took."""
    bookies_lost: int = 0
    """Bookies that came to count as lost, by accident or by an operator's wish."""
    bookies_returned: int = 0
    """Lost bookies that registered again."""
    ledgers_outlined: int = 0
    """Ledgers that were compared with the outlines of their bookies, each time that they were."""
    ledgers_listed: int = 0
    """Ledgers that were compared with the lists of their bookies."""
    requests: int = 0
    """Ledgers that a bookie was asked to copy, by an auditor or by an operator."""
    requests_ended: int = 0
    """Requests that the bookie took away: it made the copies, or they were not needed any more."""
    requests_withdrawn: int = 0
    """Requests taken back because the bookie that was asked is lost."""

    def fields(self) -> dict[str, int]:
        """Return the counters by name."""
        return asdict(self)

    def look(self, before: Missing, after: Missing, facts: Iterable[BookieFacts]) -> None:
        """Count what two looks at the bookies tell: losses and returns."""
        registered = {each.bookie for each in facts if each.registered}
        self.bookies_lost += len(after.lost - before.lost)
        self.bookies_returned += len(before.lost & registered)


def by_state(facts: Iterable[BookieFacts], missing: Missing, now_ms: int) -> dict[str, int]:
    """Return how many bookies there are of each state, zeros included.

    A missing bookie is silent or lost as the auditor counts, by its own clock and delay.
    """
    found = Counter(_state(each, missing, now_ms) for each in facts)
    return {str(each): found[each] for each in State}


def _state(facts: BookieFacts, missing: Missing, now_ms: int) -> State:
    if facts.registered is not None:
        return state_of(facts, now_ms)
    for state, names in (
        (State.GONE, missing.gone),
        (State.LOST, missing.lost),
        (State.AWAY, missing.away),
    ):
        if facts.bookie in names:
            return state
    return State.SILENT
