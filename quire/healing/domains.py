"""Closed ledgers with copies in fewer domains than their placement requires, or aims at.

A lost rack leaves ledgers short of what is required until healing made copies elsewhere, and so
does a bookie that got another label. Copies of a lost bookie do not count, nor those of a bookie
without the label, which may be anywhere. A ledger is *narrow* if it is short, or in fewer domains
than it aims at and than there are, and every bookie that it names is there.

The work follows the change. A look decides again on ledgers that were read since the last look, and
on the ledgers of bookies that are elsewhere now, were lost or are back; on all, when the number of
domains changed. The first look is at all.

Not here: the rule of placements (quire/ledger/domains.py), and moves (spread.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from quire.entry import BookieId, LedgerId
from quire.healing.index import BookieDomains, Index
from quire.labels import NOWHERE, Labels

LEDGERS_AT_ONCE: Final = 1000
"""Decided without a turn for others: some milliseconds."""


class DomainWatch:
    """See the module."""

    def __init__(self, index: Index) -> None:
        self._index: Final = index
        self._places: dict[BookieId, Labels] = {}
        self.ledgers: Final[set[LedgerId]] = set()
        """The ledgers that are short of domains."""
        self.narrow: Final[set[LedgerId]] = set()
        """The ledgers that may be in more domains, those among them that are short included."""
        self._reach: Mapping[str, int] = {}

    async def look(self, found: Mapping[BookieId, Labels], changed: Iterable[LedgerId]) -> None:
        """Decide again on what may have changed.

        Args:
            found: where each bookie is whose copies count. One that is nowhere now is where it was
                seen last: it is not registered, and not lost yet.
            changed: ledgers that were read, or found deleted, since the last look.
        """
        before, index = self._places, self._index
        self._places = places = {
            bookie: labels if labels != NOWHERE else before.get(bookie, NOWHERE)
            for bookie, labels in found.items()
        }
        there = index.places(places)
        if not index.requires_domains and not there.reach and not self._reach:
            self.ledgers.clear()
            self.narrow.clear()
            return
        for ledger in sorted(changed):
            self._mark(ledger, there)
        moved = [each for each in index.bookies() if places.get(each) != before.get(each)]
        if there.reach != self._reach:
            self._reach, moved = there.reach, index.bookies()
        for decided, ledger in enumerate(self._ledgers_of(moved), start=1):
            self._mark(ledger, there)
            if decided % LEDGERS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _ledgers_of(self, bookies: Sequence[BookieId]) -> Iterator[LedgerId]:
        """Yield the ledgers that name some bookies; each once if these are most ledgers."""
        index = self._index
        if sum(len(index.ledgers_of(each)) for each in bookies) < len(index):
            for bookie in bookies:
                yield from index.ledgers_of(bookie)
            return
        page = index.after(-1, LEDGERS_AT_ONCE)
        while page:
            yield from page
            page = index.after(page[-1], LEDGERS_AT_ONCE)

    def _mark(self, ledger: LedgerId, there: BookieDomains) -> None:
        is_short = self._index.lacks_domains(ledger, there)
        is_narrow = self._index.is_narrow(ledger, there) or (
            is_short and self._is_all_there(ledger)
        )
        _set(self.ledgers, ledger, is_in=is_short)
        _set(self.narrow, ledger, is_in=is_narrow)

    def _is_all_there(self, ledger: LedgerId) -> bool:
        row = self._index.row(ledger)
        return row is not None and row.bookies <= self._places.keys()


def _set(ledgers: set[LedgerId], ledger: LedgerId, *, is_in: bool) -> None:
    if is_in:
        ledgers.add(ledger)
    else:
        ledgers.discard(ledger)
