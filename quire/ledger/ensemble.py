"""The ensemble as its writer drives it: one lane per position around one window and one backlog.

Frames go in; LAC and failures come out. Acks move the window, the window
moves LAC, and frames that every sending lane has cut are dropped. A failed lane is taken down and
reported; from then on it is `down` until a change of the ensemble gives its position away or
`revive` probes it.

Law kept here: a lane sends only to the bookie that confirmed metadata names at its position, for
lanes are made from metadata and by `install`, which the change calls after its compare-and-set.

Not here: choosing replacements and changing metadata (`ensemble_change`), callers (`writer`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from quire.aio.backoff import Backoff
from quire.aio.tasks import Tasks
from quire.entry import BookieId, EntryId, LedgerId
from quire.errors import (
    BookieUnavailableError,
    InvalidRequestError,
    LedgerFencedError,
    QuireError,
    ReadOnlyBookieError,
)
from quire.ledger.backlog import Backlog
from quire.ledger.lane import Lane, LaneContext, LaneState
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.options import LedgerOptions
from quire.ledger.roster import Bookies
from quire.ledger.window import AppendWindow

BACKOFF: Final = Backoff(first=0.05, last=1.0)
"""Pauses before a failed bookie that has no replacement is probed."""

_log = logging.getLogger(__name__)


class Ensemble:
    """Lanes, window and backlog of one writer."""

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
    ) -> None:
        """Begin at the last fragment of `metadata`, which has no entries yet.

        `confirmed` is called with LAC when it moved or there may be space again, `failed` when
        a lane went down, `ended` when a bookie refuses this writer permanently.
        """
        begin = metadata.last_fragment.first
        self.window = AppendWindow(metadata.replication, begin - 1)
        self.accepted = AppendWindow(metadata.replication, begin - 1) if deferred_sync else None
        """With deferred sync, what acks say; the window then has what bookies vouched for."""
        self.backlog = Backlog(
            metadata.replication,
            options.entries_in_flight_max,
            options.bytes_in_flight_max,
            confirmed=begin - 1,
        )
        self.suspects: dict[BookieId, float] = {}
        """Bookies that failed this writer, and the loop time until they may be spares again."""
        self._is_stopped = False
        self._confirmed = confirmed
        self._failed = failed
        self._ended = ended
        self._options = options
        self._context = LaneContext(
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
        self.lanes = [
            Lane(self._context, position, bookie, begin)
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
    def ailing(self) -> list[Lane]:
        """The lanes that are down or probing: a spare would be better."""
        return [lane for lane in self.lanes if lane.state is not LaneState.UP]

    @property
    def can_wait(self) -> bool:
        """Whether lanes that are not up may keep their place: by option, while Qa others do."""
        down = self.ailing
        if not self._options.delay_ensemble_change or any(lane.is_read_only for lane in down):
            return False
        replication, ailing = self._context.replication, {lane.position for lane in down}
        return all(
            len(ailing.intersection(replication.write_set(start))) < replication.coverage
            for start in range(replication.ensemble)
        )

    def is_complete(self, metadata: LedgerMetadata) -> bool:
        """Return whether every bookie is known to hold its whole share of the ledger."""
        marks = [self.window.watermark(lane.position) for lane in self.lanes]
        never_failed = len(metadata.fragments) == 1 and not self.suspects
        return never_failed and min(marks) >= self.window.lac

    def is_room(self, size: int) -> bool:
        """Return whether a payload of `size` bytes may be pushed."""
        return self.backlog.is_room(size, self.window.lac)

    def push(self, frame: bytes, length: int) -> EntryId:
        """Take in the next entry; `pump` sends it."""
        self.backlog.append(frame, length)
        if self.accepted is not None:
            self.accepted.push()
        return self.window.push()

    def pump(self) -> None:
        """Send waiting frames on every lane that can."""
        for lane in self.lanes:
            lane.pump()
        self._release()

    def tell_lac(self, packet: bytes) -> None:
        """Send an explicit LAC to every bookie that is up; after `stop`, to all."""
        for lane in self.lanes:
            if self._is_stopped or lane.state is not LaneState.DOWN:
                lane.tell_lac(packet)

    def acknowledged(self, lane: Lane, through: EntryId) -> None:
        """A lane's bookie holds all it was sent up to an entry."""
        window = self.window if self.accepted is None else self.accepted
        window.acknowledge(lane.position, through)
        lane.pump()
        self._release()
        self._confirmed(self.window.lac)

    def sync(self) -> None:
        """Ask bookies that accepted entries since the last sync to confirm them."""
        if self.accepted is None:
            return
        for lane in self.lanes:
            accepted = self.accepted.watermark(lane.position)
            durable = max(self.window.lac, self.window.watermark(lane.position))
            if lane.state is LaneState.UP and accepted > durable:
                lane.sync(durable + 1, accepted)

    def synced(self, lane: Lane, asked: EntryId, through: EntryId) -> None:
        """A lane's bookie vouches for all of its entries up to one."""
        self.window.acknowledge(lane.position, through)
        if through < asked:
            reason = f"it lost entry {through + 1}, which it had accepted"
            self.failed(lane, BookieUnavailableError(lane.bookie, reason))
        self._release()
        self._confirmed(self.window.lac)

    def failed(self, lane: Lane, error: Exception) -> None:
        """A lane's bookie failed: refuse, or take it down and have it replaced."""
        if isinstance(error, LedgerFencedError | InvalidRequestError):
            self._ended(error)
            return
        if not isinstance(error, QuireError):
            _log.error("ledger %d, bookie %s", self.ledger, lane.bookie, exc_info=error)
        now = asyncio.get_running_loop().time()
        lane.is_read_only = isinstance(error, ReadOnlyBookieError)
        pause = BACKOFF.seconds(lane.failures)
        level = logging.DEBUG if lane.failures else logging.WARNING
        _log.log(level, "ledger %d, position %d is down: %s", self.ledger, lane.position, error)
        self.suspects[lane.bookie] = now + self._options.quarantine
        lane.take_down(now + pause)
        self._forget_accepted(lane.position)
        self._release()
        self._failed()

    def install(self, fragment: Fragment) -> None:
        """Send positions that metadata now gives to other bookies to these, from LAC + 1 on."""
        changed = [lane for lane in self.lanes if fragment.bookies[lane.position] != lane.bookie]
        self.window.replace([lane.position for lane in changed], fragment.first)
        for lane in changed:
            self._forget_accepted(lane.position)
            bookie = fragment.bookies[lane.position]
            _log.info("ledger %d, position %d goes to %s", self.ledger, lane.position, bookie)
            lane.take_down(0.0)
            self.lanes[lane.position] = Lane(self._context, lane.position, bookie, fragment.first)

    def revive(self, now: float) -> None:
        """Probe the lanes with an ended pause."""
        for lane in self.lanes:
            if lane.state is LaneState.DOWN and lane.retry_at <= now:
                lane.revive(max(self.window.lac, self.window.watermark(lane.position)) + 1)

    def deadline(self, is_crowded: bool) -> float | None:
        """Return the loop time when a run under way will have taken too long.

        `is_crowded`: appends wait for space.
        """
        due = [
            lane.oldest + self._patience(lane, is_crowded)
            for lane in self.lanes
            if lane.oldest is not None
        ]
        return min(due, default=None)

    def expire(self, now: float, is_crowded: bool) -> None:
        """Fail the lanes that have a run under way for too long."""
        for lane in list(self.lanes):
            patience = self._patience(lane, is_crowded)
            if lane.oldest is not None and lane.oldest + patience <= now:
                reason = f"no answer to a run within {patience:g} s"
                self.failed(lane, BookieUnavailableError(lane.bookie, reason))

    def stop(self) -> None:
        """Send no entry any more, and count no answer."""
        self._is_stopped = True
        for lane in self.lanes:
            lane.take_down(0.0)

    def _forget_accepted(self, position: int) -> None:
        """Forget the entries that a failed bookie accepted: it may have lost them."""
        if self.accepted is not None:
            durable = max(self.window.lac, self.window.watermark(position))
            self.accepted.restart(position, durable)

    def _patience(self, lane: Lane, is_crowded: bool) -> float:
        """Return the time limit of a lane: less for the one lane that all appends wait for."""
        is_last = lane.cursor == self.backlog.base
        if is_crowded and is_last and self.backlog.is_lagging(self.window.lac):
            return min(self._options.stall_timeout, self._options.request_timeout)
        return self._options.request_timeout

    def _release(self) -> None:
        """Let go of frames that are confirmed and that no lane that is up has yet to cut."""
        through = self.window.lac
        for lane in self.lanes:
            if lane.state is LaneState.UP and lane.cursor <= through:
                through = lane.cursor - 1
        self.backlog.release(through)
