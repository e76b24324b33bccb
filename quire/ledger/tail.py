"""Waiting for news of a ledger that is still written.

`TailWatch` subscribes at bookies, or asks those without subscriptions to answer when their LAC
moves, and the store to answer when metadata does. Only LACs that are proven by verified bytes
count; a bookie's unverified hint merely wakes.

  - Enough bookies are asked to cover every write set, so a bookie that is down cannot hide a LAC.
  - A bookie that answers early without proving anything new is asked again after a pause that
    doubles: a fenced ledger, a damaged tail or a lying hint cannot make a busy loop.
  - News bring entries along, confirmed or not (`pushed`); an answer brings the bookie's last entry.
    Those that are confirmed and wanted are delivered without another question.
  - A subscription that ends, by a fence, an error or the loss of its connection, is made anew after
    the same pauses. Credit goes back for taken news, so only while a follower waits.
  - In recovery nothing is asked of bookies: the end is metadata's to tell.
  - It ends exactly when the ledger is closed and its last entry was delivered.

The watch owns its subscriptions, and `asking` every call; closing both ends them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from quire.aio.backoff import Backoff
from quire.bookie import LedgerTail
from quire.entry import BookieId, EntryId
from quire.errors import (
    NotPermittedError,
    QuireError,
    RefusedError,
    RetryError,
)
from quire.ledger.known import KnownLedger
from quire.ledger.metadata import LedgerState
from quire.ledger.pushed import PushedEntries
from quire.ledger.quorum_call import QuorumCall, within
from quire.ledger.read_plan import Nearness, covering
from quire.ledger.subscription import PushedNews, Subscribable, Subscription
from quire.ledger.verify import pushed_entries, unverified_entry, verified_lac
from quire.metrics.meter import SILENT_METER, ClientMeter, FollowerFigures

WAIT_SECONDS: Final = 30.0
"""How long a bookie is asked to wait for news before it answers without any."""

ASKED_MIN: Final = 2
"""Where one bookie covers everything (Qa = Qw), its silence would stop the follower."""

BACKOFF: Final = Backoff(first=0.020, last=1.0)
"""Pauses before a bookie that failed or brought nothing is asked again."""

_TOLD: Final = "/told"
_METADATA: Final = "/metadata"
"""Keys that are not a bookie's id."""


@dataclass(frozen=True, slots=True)
class News:
    """A bookie's answer to "tell me when LAC is above"."""

    above: EntryId
    tail: LedgerTail
    waited: float

    @property
    def fenced(self) -> bool:
        return bool(self.tail.fenced)


Heard: TypeAlias = News | PushedNews | None


class TailWatch:
    """The questions and subscriptions under way, and how long each bookie is left alone next time.

    `asking` owns the questions: its block must be entered, and its end ends them. `close` ends the
    subscriptions.
    """

    def __init__(
        self,
        known: KnownLedger,
        asking: QuorumCall[str, Heard],
        meter: ClientMeter = SILENT_METER,
    ) -> None:
        """`meter` is told of subscriptions and of their news."""
        self._known = known
        self._meter = meter
        meter.watch(self)
        self._told = asyncio.Event()
        self._asking = asking
        self._failures: dict[str, int] = {}
        self._refused: set[str] = set()
        """The bookies that refused this program when they were asked last."""
        self.pushed = PushedEntries()
        """The entries that news and answers brought."""
        self._subscribed: dict[BookieId, Subscription] = {}

    def tell(self) -> None:
        """Let `next` return: the known ledger was told something by another reader."""
        self._told.set()

    async def next(self) -> None:
        """Ask every bookie that has to be asked and is not yet, and take in one answer.

        Raises the error of the record when the ledger is gone, `NotPermittedError`, and
        `RefusedError` when no bookie admits this program.
        """
        known, asking = self._known, self._asking
        if not asking.is_asked(_TOLD):
            asking.ask(_TOLD, self._wait_told())
        if not asking.is_asked(_METADATA):
            asking.ask(_METADATA, self._wait_metadata(self._rest(_METADATA)))
        if known.metadata.state is LedgerState.OPEN:
            chosen = self._choice()
            for bookie in chosen:
                if not asking.is_asked(bookie):
                    asking.ask(bookie, self._wait_news(bookie, self._rest(bookie)))
            self._unsubscribe(chosen)
        key, answer = await asking.next()
        if isinstance(answer, QuireError):
            if key in self._subscribed:
                self._meter.subscription_ended(type(answer).__name__)
            if key == _METADATA and not isinstance(answer, RetryError):
                raise answer
            if isinstance(answer, NotPermittedError):
                raise answer  # the other bookies have the same rights
            if isinstance(answer, RefusedError):
                self._refused.add(key)
                if self._refused.issuperset(known.metadata.last_fragment.bookies):
                    raise answer
            self._slow_down(key)
        elif answer is None:
            self._failures.pop(key, None)
        else:
            self._refused.discard(key)
            self._take(key, answer)
            if answer.fenced:
                with suppress(RetryError):
                    await known.refresh()

    def _choice(self) -> list[BookieId]:
        """Return bookies that cover every write set, the near ones first, and last those that are
        left alone for a while.
        """
        known = self._known
        ensemble = known.metadata.last_fragment.bookies
        places = [known.bookies.labels(bookie) for bookie in ensemble]
        distance = Nearness(known.options.labels, places).distance
        ranked = sorted(
            range(len(ensemble)), key=lambda p: (ensemble[p] in self._failures, distance(p))
        )
        count = len(covering(known.metadata.replication, ranked))
        return [ensemble[position] for position in ranked[: max(count, ASKED_MIN)]]

    def _unsubscribe(self, chosen: list[BookieId]) -> None:
        """End the subscriptions at bookies that are not needed any more, and not waited for."""
        for bookie in [each for each in self._subscribed if each not in chosen]:
            if not self._asking.is_asked(bookie):
                self._subscribed.pop(bookie).close()

    def _take(self, bookie: BookieId, heard: News | PushedNews) -> None:
        before = self._known.confirmed
        if isinstance(heard, PushedNews):
            self._take_pushed(heard)
            in_vain = heard.fenced or heard.hint > self._known.confirmed
            if (subscribed := self._subscribed.get(bookie)) is not None:
                subscribed.give_back(self._known.confirmed + 1)
        else:
            before = heard.above
            self._take_answer(heard)
            in_vain = heard.waited < WAIT_SECONDS / 2
        if self._known.confirmed > before:
            self._failures.pop(bookie, None)
        elif in_vain:
            self._slow_down(bookie)

    def _take_answer(self, news: News) -> None:
        lac = verified_lac(self._known.sealer, news.tail)
        if lac is not None and lac > news.above:
            self._known.confirm(lac)
            frame = news.tail.frame
            if frame is not None and unverified_entry(frame) <= lac:
                self.pushed.put([self._known.sealer.unseal(unverified_entry(frame), frame)])

    def _take_pushed(self, news: PushedNews) -> None:
        """Keep the entries of news, and believe the LAC that they prove."""
        known = self._known
        entries, lac = pushed_entries(
            known.sealer,
            news.run,
            news.lac_packet if news.hint > known.confirmed else None,
            self.pushed.lacks,
            proves=news.hint > known.confirmed,
        )
        known.confirm(lac)
        self._meter.pushed(len(entries))
        self.pushed.put(entries)

    async def _wait_news(self, bookie: BookieId, pause: float) -> News | PushedNews:
        """Wait for news by the subscription at a bookie, which is made first if need be; ask a
        bookie that has no subscriptions.
        """
        await asyncio.sleep(pause)
        known, subscribed = self._known, self._subscribed.get(bookie)
        if subscribed is None or subscribed.is_over:
            self._subscribed.pop(bookie, None)
            link = known.bookies.bookie(bookie)
            found = None
            if isinstance(link, Subscribable):
                above = known.confirmed
                found = await link.subscribe(known.ledger, above, above + 1, WAIT_SECONDS)
            if found is None:
                return await self._wait_tail(bookie)
            subscribed = self._subscribed[bookie] = found
        return await subscribed.next()

    def _figures(self) -> FollowerFigures:
        return FollowerFigures(sum(not each.is_over for each in self._subscribed.values()))

    def close(self) -> None:
        """End all subscriptions."""
        for subscribed in self._subscribed.values():
            subscribed.close()
        self._subscribed.clear()

    def _slow_down(self, key: str) -> None:
        self._failures[key] = self._failures.get(key, 0) + 1

    def _rest(self, key: str) -> float:
        """Return how many seconds to leave a key alone before it is asked."""
        failures = self._failures.get(key, 0)
        return BACKOFF.seconds(failures - 1) if failures else 0.0

    async def _wait_told(self) -> None:
        await self._told.wait()
        self._told.clear()

    async def _wait_metadata(self, pause: float) -> None:
        await asyncio.sleep(pause)
        await self._known.wait_change()

    async def _wait_tail(self, bookie: BookieId) -> News:
        known, time = self._known, asyncio.get_running_loop().time
        above, asked_at = known.confirmed, time()
        call = known.bookies.bookie(bookie).wait_tail(known.ledger, above, WAIT_SECONDS)
        deadline = WAIT_SECONDS + known.options.request_timeout
        return News(above, await within(deadline, bookie, call), time() - asked_at)
