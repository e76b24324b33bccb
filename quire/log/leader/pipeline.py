"""The pipeline: from submitted records to durable positions.

One task, the pump, does everything that has an order: it cuts parcels and sends them, moves the
writes to the next segment, and mends what failed. Acks come in by callback and complete the
records' futures.

    submit → outbox → pump → current segment's ledger → ack → positions
                        ↑_____________ mend: what recovery did not find goes to the next segment

Invariants:

  * Nothing is sent to a segment before everything sent to the one before it is decided. The pump is
    the only sender, and it switches only when nothing is in flight.
  * Records are confirmed in order, and never after the leader was deposed.
  * A parcel is sent again only when its ledger is closed and does not contain it; it is confirmed
    by a recovery only when the ledger holds its bytes.

A parcel has the records that were queued while earlier parcels were in flight. While
`PARTIAL_OUTSTANDING_MAX` entries are in flight, only a full parcel is sent. There is no timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from quire.aio.retry import retry
from quire.entry import EntryId
from quire.errors import (
    EntryTooLargeError,
    InvalidRequestError,
    QuireError,
    RefusedError,
    TailConflictError,
)
from quire.log.leader.accumulator import Outbox, Parcel
from quire.log.leader.conditions import ALWAYS, Terms
from quire.log.leader.flow_control import Room
from quire.log.leader.life import Life, Refusal
from quire.log.leader.outcome import (
    SINGLE,
    Outcome,
    SharedOutcome,
    answer,
    places_from,
    repeated,
)
from quire.log.leader.segments import Chain, LiveSegment, Taken, deposed_by
from quire.log.manifest.live_options import LiveOptions
from quire.log.manifest.times import begin_ms
from quire.log.records.position import Position
from quire.log.records.producers import Numbered, Producers
from quire.log.records.txids import check_order

PARTIAL_OUTSTANDING_MAX: Final = 4
"""A ledger has two runs under way to each bookie: more entries would only wait there instead."""

SMALL_BYTES_MAX: Final = 1024 * 1024
"""A record as large fits a batch whatever else is in it."""

LATE_SECONDS: Final = 3.0
"""A warning is logged when appends waited so long for bookies: an ensemble change takes less."""

MENDS_MAX: Final = 3
"""How many ledgers may fail in a row without an ack in between."""


_log = logging.getLogger(__name__)


class Pipeline:
    """Everything between `submit` and the ledgers. Its owner runs the pump, `run`, in a task."""

    def __init__(
        self,
        chain: Chain,
        live: LiveOptions,
        life: Life,
        *,
        rng: Random,
        on_fill: Callable[[float], None],
        on_switch: Callable[[], None],
        producers: Producers,
        locate: Callable[[int], Awaitable[Position]],
    ) -> None:
        tenure, options, current = chain.manifest, live.now, chain.current
        end, begun = current.confirmed, (tenure.last_timestamp_ms, current.created_ms)
        self._loop = asyncio.get_running_loop()
        self._chain = chain
        self._live = live
        self._life = life
        self._open_timeout = options.open_timeout
        self._body_bytes_max = options.body_bytes_max
        self._rng = rng
        self._on_fill = on_fill
        self._on_switch = on_switch
        self._locate = locate
        self._producers = producers
        self._stamped: dict[int, SharedOutcome] = {}
        self._room = Room(options.records_in_flight_max, options.bytes_in_flight_max)
        self._outbox = Outbox(
            epoch=chain.epoch,
            next_offset=current.next_offset,
            timestamp_ms=end.last_timestamp_ms if current.entries else begin_ms(*begun),
            options=options,
            producers=producers,
            txid=end.last_txid if current.entries else tenure.last_txid,
        )
        self._limit_producers()
        self._sent: deque[Parcel] = deque()
        self._again: deque[Parcel] = deque()
        self._broken: BaseException | None = None
        self._defect: Exception | None = None
        self._mends = 0
        self._late_until = 0.0
        self._looking = 0
        """Callers that wait for the place of a duplicate's original."""
        self._nudge: asyncio.Future[None] | None = None
        self._idle: list[asyncio.Future[None]] = []

    # Callers' side.

    @property
    def next_offset(self) -> int:
        """Offset of the next record that is queued."""
        return self._outbox.end_offset

    def submit_now(self, record: bytes) -> asyncio.Future[Any] | None:
        """Queue one record without conditions and return its future. None if the record must
        wait, is large, or is to be refused: then call `submit`.

        Most records take this path, so all work that can be done per parcel is done there.
        """
        size = len(record)
        if size > SMALL_BYTES_MAX or self._life.refusal is not None:
            return None
        if not self._room.enter_now(1, size):
            return None
        future: asyncio.Future[Any] = self._loop.create_future()
        self._outbox.put((record,), size, future, SINGLE)
        nudge = self._nudge
        if nudge is not None and not nudge.done():
            nudge.set_result(None)
        return future

    async def submit(
        self, group: Sequence[bytes], count: int, terms: Terms = ALWAYS
    ) -> asyncio.Future[Any]:
        """Queue a group that shares one entry, once there is room; return its future.

        Raises `EntryTooLargeError`, the errors of the conditions, and the error that closed or
        stopped the pipeline.
        """
        size = sum(map(len, group)) + terms.marks.attribute_bytes()
        self._check_size(group, size, terms)
        self.check_open()
        future: asyncio.Future[Any] = self._loop.create_future()
        if terms is ALWAYS and self._room.enter_now(len(group), size):
            self._outbox.put(group, size, future, count)
            self.nudge()
            return future
        return await self._submit_in_turn(group, size, future, count, terms)

    def _check_size(self, group: Sequence[bytes], size: int, terms: Terms) -> None:
        """Raise `EntryTooLargeError` if a group does not fit an entry beside its columns."""
        extra = 4 * len(group) + self._outbox.columns_cost(len(group), terms.marks)
        limit = self._body_bytes_max - extra
        if size > limit:
            raise EntryTooLargeError(size, limit)

    # Conditional and waiting appends are decided in the step in which there is space.

    async def _submit_in_turn(
        self,
        group: Sequence[bytes],
        size: int,
        future: asyncio.Future[Any],
        count: int,
        terms: Terms,
    ) -> asyncio.Future[Any]:
        found: list[Numbered] = []

        def serve() -> bool:
            producer_sequence = terms.marks.producer_sequence
            known = self._producers.find(producer_sequence) if producer_sequence else None
            if known is not None:
                found.append(known)
                return False
            self._check_size(group, size, terms)
            self._put(group, size, future, count, terms)
            return True

        await self._room.enter(len(group), size, serve)
        return await self._answer_again(found[0], future, len(group), count) if found else future

    def _put(
        self,
        group: Sequence[bytes],
        size: int,
        future: asyncio.Future[Any],
        count: int,
        terms: Terms,
    ) -> None:
        offset = self._outbox.end_offset
        if terms.expected_offset not in (None, offset):
            assert terms.expected_offset is not None
            raise TailConflictError(self._chain.name, terms.expected_offset, offset)
        if terms.marks.txid is not None:
            check_order(self._chain.name, terms.marks.txid, self._outbox.txid)
        outcome: Outcome = future
        if terms.marks.producer_sequence is not None:
            self._producers.note(terms.marks.producer_sequence, offset, len(group))
            outcome = shared = SharedOutcome(lambda: self._stamped.pop(offset, None))
            shared.join(future, count)
            self._stamped[offset] = shared
        self._outbox.put(group, size, outcome, count, terms.marks)
        self.nudge()

    async def _answer_again(
        self, known: Numbered, future: asyncio.Future[Any], records: int, count: int
    ) -> asyncio.Future[Any]:
        """Answer a duplicate as its original was answered, or will be."""
        if known.records != records:
            raise InvalidRequestError(
                f"sequence {known.sequence} was given to {known.records} records, not {records}"
            )
        original = self._stamped.get(known.offset)
        if original is not None:
            original.join(future, count, repeats=True)
            return future
        self._looking += 1
        try:
            first = await self._locate(known.offset)
        finally:
            self._looking -= 1
        answer(future, count, repeated(places_from(first, known.offset, records)))
        return future

    def check_open(self) -> None:
        """Raise the error that ends the handle, or ended it."""
        if self._life.refusal is not None:
            raise self._life.refusal()

    @property
    def is_idle(self) -> bool:
        """Whether every submitted record is decided."""
        return not (self._sent or self._again or self._outbox)

    @property
    def may_rest(self) -> bool:
        """Whether every record is decided and answered, and no caller waits."""
        waits = self._idle or self._stamped or self._looking or self._room.is_in_use
        return self.is_idle and not waits and self._broken is None and self._defect is None

    async def drained(self) -> None:
        """Return when nothing is queued or in flight. Raises the error with which the handle has
        ended.
        """
        while not self.is_idle:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(future)
            await future
        if self._life.has_ended:
            self.check_open()

    def options_changed(self) -> None:
        """Apply the options to every parcel from now on."""
        self._outbox.obey(self._live.now)
        self._limit_producers()
        self.nudge()

    def _limit_producers(self) -> None:
        """Forget producers beyond the limits of the options, including producers of queued
        records.
        """
        options, counted_ms = self._live.now, self._chain.counted_ms()
        for obey in (self._producers.obey, self._outbox.limit_producers):
            obey(options.producers_max, options.producers_seconds, counted_ms)

    def close(self, error: Refusal) -> None:
        """Refuse new records and records that wait for space. Records already taken are sent.
        The handle is closing.
        """
        self._room.shut(error)

    def stop(self, error: Refusal) -> None:
        """Decide nothing any more: the handle has ended, and every pending record gets a fresh
        error.
        """
        self._room.shut(error)
        futures = [each for parcel in (*self._sent, *self._again) for each, _ in parcel.waiting]
        for future in (*futures, *self._outbox.drop_all()):
            if not future.done():
                future.set_exception(error())
                future.exception()  # a caller need not await every record
        self._sent.clear()
        self._again.clear()
        self._wake_idle()

    def nudge(self) -> None:
        """Wake the pump."""
        if self._nudge is not None and not self._nudge.done():
            self._nudge.set_result(None)

    # The pump.

    async def run(self) -> None:
        """Send forever. Ends by cancellation, or raises the error that ends the leader."""
        while True:
            if self._defect is not None:
                raise self._defect
            if self._broken is not None:
                await self._mend(self._broken)
            elif self._chain.successor is not None and not self._sent:
                self._switch()
            elif self._may_send():
                await self._send()
            else:
                self._nudge = asyncio.get_running_loop().create_future()
                await self._nudge

    def _may_send(self) -> bool:
        if self._chain.successor is not None:
            return False
        if self._again or self._outbox.has_full_batch:
            return True
        return bool(self._outbox) and len(self._sent) < PARTIAL_OUTSTANDING_MAX

    async def _send(self) -> None:
        segment = self._chain.current
        again, now_ms = bool(self._again), self._chain.now_ms()
        parcel = self._again.popleft() if again else self._outbox.cut(now_ms)
        parcel.ack = None
        if parcel.sent_at is None:
            parcel.sent_at = self._loop.time()
        self._sent.append(parcel)  # if anything fails from here on, `stop` finds it
        segment.note_sent(parcel)
        try:
            ack = await segment.writer.submit(parcel.stored)
        except QuireError as error:
            self._broken = self._broken or error
            return
        parcel.ack = ack
        ack.add_done_callback(partial(self._on_ack, segment))
        options = self._live.now
        share = max(segment.bytes / options.roll_bytes, segment.entries / options.roll_entries)
        self._on_fill(1.0 if self._outbox.is_ahead(now_ms) else share)

    def _on_ack(self, segment: LiveSegment, ack: asyncio.Future[EntryId]) -> None:
        """Confirm acknowledged entries. The pump raises a defect that is found here."""
        try:
            self._confirm_acked(segment)
        except Exception as error:
            self._defect = error
        self.nudge()

    def _confirm_acked(self, segment: LiveSegment) -> None:
        """Confirm acknowledged entries from the oldest on, in order, whatever the order of
        callbacks.
        """
        while self._sent and segment is self._chain.current and not (self._broken or self._defect):
            parcel = self._sent[0]
            if parcel.ack is None or not parcel.ack.done() or parcel.ack.cancelled():
                break
            self._broken = parcel.ack.exception()
            if self._broken is None:
                assert parcel.ack.result() == parcel.entry, "a ledger has one writer"
                self._mends = 0
                self._confirm(segment, parcel)

    def _confirm(self, segment: LiveSegment, parcel: Parcel) -> None:
        segment.note_confirmed(parcel)
        parcel.confirm(segment.number)
        self._sent.remove(parcel)  # only now: `stop` answers the callers that were not answered
        self._warn_if_late(parcel)
        self._room.leave(parcel.records, parcel.bytes)
        if self._idle and self.is_idle:
            self._wake_idle()

    def _warn_if_late(self, parcel: Parcel) -> None:
        """Log how long appends waited for bookies, once for all that waited together."""
        now = self._loop.time()
        sent_at = now if parcel.sent_at is None else parcel.sent_at
        if now - sent_at >= LATE_SECONDS and sent_at >= self._late_until:
            self._late_until = now
            _log.warning(
                "log %r: appends waited %.1f s for bookies, from offset %d on",
                *(self._chain.name, now - sent_at, parcel.first_offset),
            )

    def _wake_idle(self) -> None:
        for future in self._idle:
            if not future.done():
                future.set_result(None)
        self._idle.clear()

    def _switch(self) -> None:
        self._chain.switch()
        self._limit_producers()
        self._outbox.begin_segment(None if self._again else self._chain.current.created_ms)
        self._on_switch()

    async def _mend(self, cause: BaseException) -> None:
        """Close the broken ledger by recovery, confirm the parcels that it holds, and send the
        others again.

        Bookies that refuse this program's appends would refuse its recovery, too. So the leader
        ends with the first refusal: it names the call that the application made.
        """
        segment = self._chain.current
        segment.writer.abandon()
        if isinstance(cause, Taken):
            raise deposed_by(self._chain.name, self._chain.epoch, cause) from cause
        for refusal in (cause, cause.__cause__):
            if isinstance(refusal, RefusedError):
                raise refusal
        self._mends += 1
        if self._mends > MENDS_MAX:
            raise cause
        timeout = self._open_timeout
        end = await retry(self._chain.recover_current, self._rng, timeout=timeout)
        kept = [parcel for parcel in self._sent if parcel.entry <= end.last_entry]
        await retry(partial(self._chain.check_kept, kept, end), self._rng, timeout=timeout)
        for parcel in kept:
            self._confirm(segment, parcel)
        assert segment.confirmed == end, f"{segment.confirmed} confirmed, {end} recovered"
        await retry(self._chain.replace_current, self._rng, timeout=timeout)
        self._again.extendleft(reversed(self._sent))
        self._sent.clear()
        self._broken = None
        self._switch()
