"""Runs that a bookie accepts while an add is compared with the entries held (B12, B16).

A comparison reads the disk. A run that is accepted meanwhile may bring the very entries that were
not held: then the add is compared once more. The end of the ledger does not tell of a run below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from quire.entry import LedgerId
from quire.run import ScannedRun


class Fills:
    """The runs of one bookie that adds under comparison have to know of."""

    def __init__(self) -> None:
        self._watching: dict[LedgerId, list[list[range]]] = {}

    @contextmanager
    def watch(self, ledger: LedgerId) -> Iterator[list[range]]:
        """Have a list in the block that gets the ids of each run accepted for a ledger."""
        seen: list[range] = []
        watching = self._watching.setdefault(ledger, [])
        watching.append(seen)
        try:
            yield seen
        finally:
            # By identity: lists that are equal may be of others.
            watching[:] = [each for each in watching if each is not seen]
            if not watching:
                del self._watching[ledger]

    def note(self, run: ScannedRun) -> None:
        """A run was accepted."""
        for seen in self._watching.get(run.ledger, ()):
            seen.append(range(run.entries[0], run.last + 1))


def meets(run: ScannedRun, others: Iterable[range]) -> bool:
    """Return whether a run may have an entry of others."""
    first, last = run.entries[0], run.last
    return any(first < other.stop and other.start <= last for other in others)
