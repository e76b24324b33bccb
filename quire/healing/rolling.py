"""Whether every entry has all its copies on bookies that are up: the next may be stopped. Pure.

For a rolling restart. A copy on a bookie that is away, or that does not answer, does not count. The
entries of the last fragment of an open ledger are not decided yet: all bookies of its ensemble must
be up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from quire.entry import BookieId
from quire.healing.state import State
from quire.healing.verdict import ClusterFacts
from quire.ledger.info import LedgerInfo
from quire.ledger.inventory import Inventory

SERVING: Final = (State.UP, State.READ_ONLY, State.DRAINING)
"""A bookie in one of these states serves its copies, and no operator is about to stop it."""


@dataclass(frozen=True, slots=True)
class Thin:
    """A ledger with too few copies on bookies that are up.

    Attributes:
        ledger: the ledger.
        absent: the bookies that hold some of its entries by its record, and are not up.
        short: whether a bookie that is up lacks entries.
    """

    ledger: LedgerInfo
    absent: tuple[BookieId, ...]
    short: bool

    @property
    def why(self) -> str:
        """The reason in words."""
        reasons = [f"not up: {', '.join(self.absent)}"] if self.absent else []
        return "; ".join(reasons + ["entries are missing on bookies that are up"] * self.short)


def serving(facts: ClusterFacts) -> set[BookieId]:
    """Return the bookies that count as holders of their copies."""
    return {each.bookie for each in facts.bookies if facts.state(each) in SERVING}


def thin(inventory: Inventory, up: set[BookieId]) -> Thin | None:
    """Return why a ledger has fewer copies of something than its write quorum on bookies that are
    up; None when it has all.
    """
    silent = {each.bookie for each in inventory.holdings if each.error}
    absent = sorted(set(_holders(inventory.ledger)) - (up - silent))
    short = any(each.missing for each in inventory.holdings)
    return Thin(inventory.ledger, tuple(absent), short) if absent or short else None


def _holders(ledger: LedgerInfo) -> Iterator[BookieId]:
    """Yield the bookies of the fragments that have entries, or may get some."""
    firsts = [each.first for each in ledger.fragments[1:]]
    ends = [*(each - 1 for each in firsts), ledger.last_entry]
    for fragment, end in zip(ledger.fragments, ends, strict=True):
        if end is None or fragment.first <= end:
            yield from fragment.bookies
