"""The ledgers that need copies elsewhere, the most urgent first. Pure.

What counts is how many copies are left of the entry that has the fewest. A ledger with none left is
only reported: there is nothing to copy from. A ledger that is not closed waits for its writer, or
for the next leader of its log, which replaces lost bookies.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from quire.entry import BookieId, LedgerId
from quire.healing.index import Index


class Reason(IntEnum):
    """Why a ledger needs copies elsewhere. With equally many copies left, the first goes first."""

    LOST = 0
    """A bookie that it names is lost."""
    DRAIN = 1
    """A bookie that it names is to leave."""

    def __str__(self) -> str:
        return self.name.lower()


class Job(NamedTuple):
    """One ledger. Jobs sort by urgency."""

    left: int
    """Copies left of each entry, at least."""
    reason: Reason
    ledger: LedgerId


@dataclass(slots=True)
class Work:
    """The work that follows from the index and the bookies that are lost or leave."""

    jobs: list[Job] = field(default_factory=list)
    """The most urgent first."""
    stranded: list[LedgerId] = field(default_factory=list)
    """Some entries of these have no copy left, as long as the lost bookies do not return."""
    waiting: list[LedgerId] = field(default_factory=list)
    """Not closed, and they name a lost bookie."""


def work_of(index: Index, lost: Collection[BookieId], leaving: Collection[BookieId] = ()) -> Work:
    """Return the ledgers that need copies elsewhere.

    Args:
        index: of all ledgers.
        lost: bookies that will not come back in time.
        leaving: bookies that are up, and are to hold nothing in the end.
    """
    work, marks = Work(), index.lost(lost)
    seen: set[LedgerId] = set()
    for reason, bookies in ((Reason.LOST, lost), (Reason.DRAIN, leaving)):
        for bookie in sorted(bookies):
            for ledger in index.ledgers_of(bookie):
                if ledger in seen:
                    continue
                seen.add(ledger)
                _add(work, index, ledger, reason, index.copies_left(ledger, marks))
    work.jobs.sort()
    work.stranded.sort()
    work.waiting.sort()
    return work


def _add(work: Work, index: Index, ledger: LedgerId, reason: Reason, left: int) -> None:
    if not index.is_closed(ledger):
        if reason is Reason.LOST:
            work.waiting.append(ledger)
    elif left == 0:
        work.stranded.append(ledger)
    else:
        work.jobs.append(Job(left, reason, ledger))
