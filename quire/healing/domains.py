"""Closed ledgers with copies in fewer domains than their placement requires.

A lost rack leaves ledgers so until healing made copies elsewhere, and so does a bookie that got
another label: copies that exist stay where they are. Copies of a lost bookie do not count, nor
those of a bookie without the label, which may be anywhere.

The work follows the change. A look decides again on ledgers that were read since the last look, and
on the ledgers of bookies that are elsewhere now, were lost or are back. The first look is at all.

Not here: the rule of placements (quire/ledger/domains.py), and moves: nothing is moved for this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from quire.entry import BookieId, LedgerId
from quire.healing.index import Index
from quire.labels import NOWHERE, Labels

LEDGERS_AT_ONCE: Final = 2000
"""Decided without a turn for others: some milliseconds."""


class DomainWatch:
    """See the module."""

    def __init__(self, index: Index) -> None:
        self._index: Final = index
        self._places: dict[BookieId, Labels] = {}
        self.ledgers: Final[set[LedgerId]] = set()
        """The ledgers that are short of domains."""

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
        if not index.requires_domains:
            self.ledgers.clear()
            return
        there = index.places(places)
        for ledger in sorted(changed):
            self._mark(ledger, is_short=index.lacks_domains(ledger, there))
        moved = [each for each in index.bookies() if places.get(each) != before.get(each)]
        for decided, ledger in enumerate(self._ledgers_of(moved), start=1):
            self._mark(ledger, is_short=index.lacks_domains(ledger, there))
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

    def _mark(self, ledger: LedgerId, *, is_short: bool) -> None:
        if is_short:
            self.ledgers.add(ledger)
        else:
            self.ledgers.discard(ledger)
