"""Reading a small closed ledger by a subscription: its entries come as news.

A call of its own costs a bookie and a client a millisecond of the processor, however few the bytes.
Subscriptions share a connection, and their messages are plain frames: a small ledger costs both
about half of that (docs/spark.md).

News deny nothing, so nothing is concluded from entries that do not come: the caller reads them.
"""

from __future__ import annotations

from functools import cache
from typing import Final, TypeGuard

from quire.aio.timing import time_limit
from quire.bookie import Bookie
from quire.entry import NO_ENTRY, Entry, EntryId, Sealer
from quire.errors import QuireError
from quire.ledger.news_link import CREDIT_BYTES
from quire.ledger.subscription import Subscribable
from quire.ledger.verify import pushed_entries

_BELOW_ALL: Final = NO_ENTRY - 1
"""Every bookie has a LAC above it, so the first news come at once."""


async def read_pushed(
    link: Bookie, sealer: Sealer, first: EntryId, last: EntryId, seconds: float
) -> list[Entry] | None:
    """Return the entries first … last, verified, from one bookie.

    Args:
        link: the bookie.
        sealer: of the ledger.
        first: the first entry.
        last: the last entry; the ledger is closed, and ends there or later.
        seconds: how long to wait for news.

    Returns:
        All these entries in order; None when they have to be read.

    Raises:
        Nothing: reading meets the error that the subscription met.

    Cancellation: ends the subscription.
    """
    if not _subscribes(link):
        return None
    found: dict[EntryId, Entry] = {}

    def lacks(entry: EntryId) -> bool:
        return first <= entry <= last and entry not in found

    try:
        async with time_limit(seconds):
            subscribed = await link.subscribe(sealer.ledger, _BELOW_ALL, first, seconds)
            if subscribed is None:
                return None
            try:
                taken = 0
                while taken < CREDIT_BYTES:
                    news = await subscribed.next()
                    entries, _ = pushed_entries(sealer, news.run, None, lacks, proves=False)
                    found |= {each.entry: each for each in entries}
                    if len(found) == last - first + 1:
                        return [found[entry] for entry in range(first, last + 1)]
                    if not entries:
                        return None
                    taken += len(news.run)
            finally:
                subscribed.close()
    except (QuireError, TimeoutError):
        pass
    return None


def _subscribes(link: Bookie) -> TypeGuard[Subscribable]:
    return _is_subscribable(type(link))


@cache
def _is_subscribable(kind: type) -> bool:
    return issubclass(kind, Subscribable)  # asking a protocol takes as long as the rest of a read
