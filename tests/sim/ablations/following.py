"""Safeguards of followers that share a tail."""

from __future__ import annotations

from quire.entry import Entry, EntryId
from quire.ledger.following import SharedTail, _Place
from quire.ledger.recent import RecentEntries
from tests.sim.ablations.patch import Patch


def take_what_is_recent() -> list[Patch]:
    kept = RecentEntries.from_on

    def from_on(self: RecentEntries, entry: EntryId) -> list[Entry]:
        return kept(self, max(entry, self.start))

    return [(RecentEntries, "from_on", from_on)]


def take_the_tail_anywhere() -> list[Patch]:
    kept = SharedTail.wait

    async def wait(self: SharedTail, place: _Place) -> None:
        self.recent.skip_to(place.following)
        await kept(self, place)

    return [(SharedTail, "wait", wait)]
