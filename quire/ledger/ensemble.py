"""The ensemble as its writer drives it: one sender per position around one window and one backlog.

Frames go in; LAC and failures come out. Acks move the window, the window moves LAC, and frames that
every sender in use has cut are dropped. A failed sender is taken down and reported; from then on it
is `down` until a change of the ensemble gives its position away or `revive` probes it.

Law kept here: a sender sends only to the bookie that confirmed metadata names at its position, for
senders are made from metadata and by `install`, which the change calls after its compare-and-set.

Not here: choosing replacements and changing metadata (`ensemble_change`), callers (`writer`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from quire.aio.backoff import Backoff
from quire.aio.tasks import Tasks
from quire.entry import BookieId, EntryId, FrameParts, LedgerId
from quire.errors import (
    BookieUnavailableError,
    InvalidRequestError,
    LedgerFencedError,
    QuireError,
    ReadOnlyBookieError,
)
from quire.ledger.ack_rule import AckRule
from quire.ledger.backlog import Backlog
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.options import LedgerOptions
from quire.ledger.replica_sender import ReplicaSender, SenderContext, SenderState
from quire.ledger.resting import RestingLedger
from quire.ledger.roster import Bookies
from quire.ledger.sender_calls import settle
from quire.ledger.window import AppendWindow

BACKOFF: Final = Backoff(first=0.05, last=1.0)
"""Pauses before a failed bookie that has no replacement is probed."""

_log = logging.getLogger(__name__)


class Ensemble:
    """Senders, window and backlog of one writer."""

    def __init__(
        self,
        metadata: LedgerMetadata,
        access_key: bytes,
        bookies: Bookies,
        options: LedgerOptions,
        tasks: Tasks,
        *,
        confirmed: Callable[[EntryId], None],
        failed: Callable[[], None],
        ended: Callable[[Exception], None],
        deferred_sync: bool = False,
        at: RestingLedger | None = None,
    ) -> None:
        """Begin at the last fragment of `metadata`, which has no entries yet, or after the last
        entry of a ledger that rested.

        `confirmed` is called with LAC when it moved or there may be space again, `failed` when
        a sender went down, `ended` when a bookie refuses this writer permanently.
        """
        begin = metadata.last_fragment.first if at is None else at.last + 1
        self._placement = metadata.placement
        self._rule = AckRule.of(metadata.replication, metadata.placement, metadata.last_fragment)
        self.window = AppendWindow(
            metadata.replication, begin - 1, self._rule, metadata.last_fragment.first
        )
        self.accepted = (
            AppendWindow(metadata.replication, begin - 1, self._rule) if deferred_sync else None
        )
        """With deferred sync, what acks say; the window then has what bookies vouched for."""
        self.backlog = Backlog(
            metadata.replication,
            options.entries_in_flight_max,
            options.bytes_in_flight_max,
            confirmed=begin - 1,
            length=0 if at is None else at.length,
        )
        self._told_lac = self._told_base = begin - 1
        """LAC and the backlog's base when `confirmed` was called the last time for an ack."""
        self.suspects: dict[BookieId, float] = {} if at is None else dict(at.suspects)
        """Bookies that failed this writer, and the loop time until they may be spares again."""
        self._is_stopped = False
        self._moved = asyncio.Event()
        """Set when a sender got an answer, failed, or was replaced."""
        self._confirmed = confirmed
        self._failed = failed
        self._ended = ended
        self._options = options
        self._context = SenderContext(
            metadata.ledger,
            access_key,
            metadata.replication,
            bookies,
            self.backlog,
            options,
            self,
            tasks,
            deferred_sync,
        )
        self.senders = [
            ReplicaSender(self._context, position, bookie, begin)
            for position, bookie in enumerate(metadata.last_fragment.bookies)
        ]

    @property
    def ledger(self) -> LedgerId:
        return self._context.ledger

    @property
    def answered(self) -> EntryId:
        """The last entry with an answered append: LAC, except with deferred sync."""
        return self.window.lac if self.accepted is None else self.accepted.lac

    @property
    def ailing(self) -> list[ReplicaSender]:
        """The senders that are down or probing: a spare would be better."""
        return [sender for sender in self.senders if sender.state is not SenderState.UP]

    @property
    def can_wait(self) -> bool:
        """Whether senders that are not up may keep their place: by option, while others suffice."""
        down = self.ailing
        if not self._options.delay_ensemble_change or any(sender.is_read_only for sender in down):
            return False
        replication, ailing = self._context.replication, {sender.position for sender in down}
        well = set(range(replication.ensemble)) - ailing
        return all(
            self._rule.suffices(replication.write_set(start), well)
            for start in range(replication.ensemble)
        )

    def is_lagging(self) -> bool:
        """Return whether a bookie that is up has yet to get, or ack, an entry that is confirmed."""
        return not self._is_stopped and any(
            sender.state is SenderState.UP
            and (sender.oldest is not None or sender.cursor <= self.window.lac)
            for sender in self.senders
        )

    @property
    def may_rest(self) -> bool:
        """Whether every bookie is up and has every entry, in order, and LAC may move."""
        window = self.window
        return (
            self.accepted is None
            and window.lac == window.pushed
            and not window.is_frozen
            and not self.ailing
            and not self.is_lagging()
        )

    def settle(self, seconds: float) -> Awaitable[None]:
        """Wait until no bookie lags, for some seconds at most. A bookie that is down counts as one
        that does not lag.
        """
        return settle(self.is_lagging, self._moved, seconds)

    def is_complete(self, metadata: LedgerMetadata) -> bool:
        """Return whether every bookie is known to hold its whole share of the ledger.

        With deferred sync that is never known: a bookie vouches only for entries above the LAC of
        the question. Of those at or below, it may have lost what it had accepted, in a restart that
        no call met.
        """
        if self.accepted is not None:
            return False
        marks = [self.window.watermark(sender.position) for sender in self.senders]
        never_failed = len(metadata.fragments) == 1 and not self.suspects
        return never_failed and min(marks) >= self.window.lac

    def is_room(self, size: int) -> bool:
        """Return whether a payload of `size` bytes may be pushed."""
        return self.backlog.is_room(size, self.window.lac)

    def push(self, parts: FrameParts, length: int) -> EntryId:
        """Take in the next entry; `pump` sends it."""
        self.backlog.append(parts, length)
        if self.accepted is not None:
            self.accepted.push()
        return self.window.push()

    def pump(self) -> None:
        """Send waiting frames on every sender that can."""
        for sender in self.senders:
            sender.pump()
        self._release()

    def tell_lac(self, packet: bytes) -> None:
        """Send an explicit LAC to every bookie that is up; after `stop`, to all."""
        for sender in self.senders:
            if self._is_stopped or sender.state is not SenderState.DOWN:
                sender.tell_lac(packet)

    def acknowledged(self, sender: ReplicaSender, through: EntryId) -> None:
        """A sender's bookie holds all it was sent up to an entry."""
        window = self.window if self.accepted is None else self.accepted
        window.acknowledge(sender.position, through)
        sender.pump()
        self._moved.set()
        self._release()
        lac, base = self.window.lac, self.backlog.base
        # With deferred sync each ack may be worth a sync; else most acks are the last of an entry.
        if lac != self._told_lac or base != self._told_base or self.accepted is not None:
            self._told_lac, self._told_base = lac, base
            self._confirmed(lac)

    def sync(self) -> None:
        """Ask bookies that accepted entries since the last sync to confirm them."""
        if self.accepted is None:
            return
        for sender in self.senders:
            accepted = self.accepted.watermark(sender.position)
            durable = max(self.window.lac, self.window.watermark(sender.position))
            if sender.state is SenderState.UP and accepted > durable:
                sender.sync(durable + 1, accepted)

    def synced(self, sender: ReplicaSender, asked: EntryId, through: EntryId) -> None:
        """A sender's bookie vouches for all of its entries up to one."""
        self.window.acknowledge(sender.position, through)
        if through < asked:
            reason = f"it lost entry {through + 1}, which it had accepted"
            self.failed(sender, BookieUnavailableError(sender.bookie, reason))
        self._release()
        self._confirmed(self.window.lac)

    def failed(self, sender: ReplicaSender, error: Exception) -> None:
        """A sender's bookie failed: refuse, or take it down and have it replaced."""
        if isinstance(error, LedgerFencedError | InvalidRequestError):
            self._ended(error)
            return
        if not isinstance(error, QuireError):
            _log.error("ledger %d, bookie %s", self.ledger, sender.bookie, exc_info=error)
        now = asyncio.get_running_loop().time()
        sender.is_read_only = isinstance(error, ReadOnlyBookieError)
        sender.failure = type(error).__name__
        pause = BACKOFF.seconds(sender.failures)
        level = logging.DEBUG if sender.failures else logging.WARNING
        _log.log(level, "ledger %d, position %d is down: %s", self.ledger, sender.position, error)
        self.suspects[sender.bookie] = now + self._options.quarantine
        sender.take_down(now + pause)
        self._forget_accepted(sender.position)
        self._moved.set()
        self._release()
        self._failed()

    def install(self, fragment: Fragment) -> list[str]:
        """Send positions that metadata now gives to other bookies to these, from LAC + 1 on.

        Returns why each of the bookies before failed: the name of its error.
        """
        changed = [
            sender for sender in self.senders if fragment.bookies[sender.position] != sender.bookie
        ]
        self._rule = AckRule.of(self._context.replication, self._placement, fragment)
        self.window.replace([sender.position for sender in changed], fragment.first, self._rule)
        if self.accepted is not None:
            self.accepted.obey(self._rule)
        for sender in changed:
            self._forget_accepted(sender.position)
            bookie = fragment.bookies[sender.position]
            _log.info("ledger %d, position %d goes to %s", self.ledger, sender.position, bookie)
            sender.take_down(0.0)
            self.senders[sender.position] = ReplicaSender(
                self._context, sender.position, bookie, fragment.first
            )
        self._moved.set()
        return [sender.failure for sender in changed]

    def revive(self, now: float) -> None:
        """Probe the senders with an ended pause."""
        for sender in self.senders:
            if sender.state is SenderState.DOWN and sender.retry_at <= now:
                sender.revive(max(self.window.lac, self.window.watermark(sender.position)) + 1)

    def deadline(self, is_crowded: bool) -> float | None:
        """Return the loop time when a run under way will have taken too long.

        `is_crowded`: appends wait for space.
        """
        due = [
            sender.oldest + self._patience(sender, is_crowded)
            for sender in self.senders
            if sender.oldest is not None
        ]
        return min(due, default=None)

    def expire(self, now: float, is_crowded: bool) -> None:
        """Fail the senders that have a run under way for too long."""
        for sender in list(self.senders):
            patience = self._patience(sender, is_crowded)
            if sender.oldest is not None and sender.oldest + patience <= now:
                reason = f"no answer to a run within {patience:g} s"
                self.failed(sender, BookieUnavailableError(sender.bookie, reason))

    def stop(self) -> None:
        """Send no entry any more, and count no answer."""
        self._is_stopped = True
        self._moved.set()
        for sender in self.senders:
            sender.take_down(0.0)

    def _forget_accepted(self, position: int) -> None:
        """Forget the entries that a failed bookie accepted: it may have lost them."""
        if self.accepted is not None:
            durable = max(self.window.lac, self.window.watermark(position))
            self.accepted.restart(position, durable)

    def _patience(self, sender: ReplicaSender, is_crowded: bool) -> float:
        """Return the time limit of a sender: less for the one sender that all appends wait for."""
        is_last = sender.cursor == self.backlog.base
        if is_crowded and is_last and self.backlog.is_lagging(self.window.lac):
            return min(self._options.stall_timeout, self._options.request_timeout)
        return self._options.request_timeout

    def _release(self) -> None:
        """Let go of frames that are confirmed and that no sender that is up has yet to cut."""
        through = self.window.lac
        if through < self.backlog.base:
            return
        for sender in self.senders:
            if sender.cursor <= through and sender.state is SenderState.UP:
                through = sender.cursor - 1
        self.backlog.release(through)
