"""Safeguards of followers that share a tail, of subscriptions, and of reads in plain frames."""

from __future__ import annotations

from typing import Any

from quire.bookie import Bookie
from quire.entry import ENTRY_MAX, NO_ENTRY, Entry, EntryId, Sealer
from quire.errors import QuireError
from quire.ledger import fetch
from quire.ledger.following import SharedTail, _Place
from quire.ledger.news_link import PushedTail
from quire.ledger.pushed import PushedEntries
from quire.ledger.read_link import ReadFeed
from quire.ledger.recent import RecentEntries
from quire.ledger.subscription import Subscribable
from quire.ledger.verify import pushed_entries
from quire.requests import Trace
from quire.storage.serving import read_stream
from quire.storage.serving.limits import Reception
from quire.storage.serving.subscriptions import Place
from quire.wire import bookie_pb2 as pb
from quire.wire.framed_reads import number_of
from quire.wire.varint import varint
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


def read_without_a_fence() -> list[Patch]:
    whole = read_stream._gather

    async def gather(
        reception: Reception, request: pb.ReadRequest, trace: Trace, owner: str
    ) -> bytes:
        request.ClearField("fence_key")
        return await whole(reception, request, trace, owner)

    return [(read_stream, "_gather", gather)]


def answer_the_oldest_read() -> list[Patch]:
    whole = ReadFeed._take

    def take(self: ReadFeed, message: bytes) -> None:
        number, at = number_of(message)
        whole(self, varint(next(iter(self._gathering), number)) + message[at:])

    return [(ReadFeed, "_take", take)]
