"""The followers that bookies push entries to, put together from what bookies count. Pure.

A follower has a subscription at several bookies, so these numbers are of subscriptions, and not of
programs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from quire.bookie import BookieInfo

CONNECTIONS, OPEN = "subscription_clients", "subscriptions_open"
WITHOUT_CREDIT, ENTRIES = "subscriptions_without_credit", "subscription_entries"


@dataclass(frozen=True, slots=True)
class FollowersView:
    """The followers of a cluster.

    Attributes:
        connections: connections to bookies over which entries are pushed.
        subscriptions: subscriptions on them, each for one ledger.
        without_credit: subscriptions that wait until their follower takes the news.
        entries: entries that were pushed since the bookies started.
    """

    connections: int = 0
    subscriptions: int = 0
    without_credit: int = 0
    entries: int = 0

    @property
    def text(self) -> str:
        """The same in words, without the entries."""
        late = f"; without credit: {self.without_credit}" if self.without_credit else ""
        return f"{self.subscriptions} open; connections: {self.connections}{late}"


def followers_of(infos: Iterable[BookieInfo]) -> FollowersView | None:
    """Return the followers that some bookies know; None if no bookie counts them."""
    counts = [each.counters for each in infos if OPEN in each.counters]
    if not counts:
        return None
    total = [sum(each.get(name, 0) for each in counts) for name in _NAMES]
    return FollowersView(*total)


_NAMES = (CONNECTIONS, OPEN, WITHOUT_CREDIT, ENTRIES)
