"""Safeguards of followers that share a tail, and of subscriptions."""

from __future__ import annotations

from typing import Any

from quire.bookie import Bookie
from quire.entry import ENTRY_MAX, NO_ENTRY, Entry, EntryId, Sealer
from quire.errors import QuireError
from quire.ledger import fetch
from quire.ledger.following import SharedTail, _Place
from quire.ledger.news_link import PushedTail
from quire.ledger.pushed import PushedEntries
from quire.ledger.recent import RecentEntries
from quire.ledger.subscription import Subscribable
from quire.ledger.verify import pushed_entries
from quire.storage.serving.subscriptions import Place
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


def deliver_what_is_pushed() -> list[Patch]:
    kept = PushedEntries.take

    def take(self: PushedEntries, first: EntryId, confirmed: EntryId) -> list[Entry]:
        return kept(self, first, ENTRY_MAX)

    return [(PushedEntries, "take", take)]


def keep_what_is_over() -> list[Patch]:
    return [(PushedTail, "is_over", False)]


def push_without_credit() -> list[Patch]:
    async def funded(self: Place, counts: Any) -> None:
        self.account.left = max(self.account.left, 1000)

    return [(Place, "funded", funded)]


def read_what_came_first() -> list[Patch]:
    async def read_pushed(
        link: Bookie, sealer: Sealer, first: EntryId, last: EntryId, seconds: float
    ) -> list[Entry] | None:
        try:
            assert isinstance(link, Subscribable)
            subscribed = await link.subscribe(sealer.ledger, NO_ENTRY - 1, first, seconds)
            if subscribed is None:
                return None
            news = await subscribed.next()
            subscribed.close()
        except QuireError:
            return None
        found, _ = pushed_entries(
            sealer, news.run, None, lambda entry: first <= entry <= last, proves=False
        )
        return sorted(found, key=lambda entry: entry.entry)

    return [(fetch, "read_pushed", read_pushed)]
