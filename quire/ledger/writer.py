"""The writer of a ledger: what its one owner appends with.

An append seals its entry, puts the frame into the backlog and waits. Everything else happens per
run: appends of one turn of the event loop are sent together, acks move LAC, and LAC answers all
appends at or below it at once. Entries are confirmed in order, so an answered append means that
every earlier entry of the ledger is durable on Qa bookies too.

How it ends: `close` seals the ledger; a fence, a foreign close or a refused key end the writer at
once, with the outcome of all appends in flight unknown. A time-out ends one append only: its
entry stays in flight, and a later append that is answered proves it was kept.

One timer serves all deadlines (`deadlines`), one the explicit LAC. Not here: bookies (`ensemble`),
their replacement (`ensemble_change`), metadata (`ledger_record`), callers (`pending_appends`),
the steps of an append (`append_steps`).
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

from quire.aio.handle import Handle
from quire.aio.home import home_here
from quire.aio.later import Later
from quire.aio.tasks import Tasks
from quire.aio.timing import time_limit
from quire.entry import ENTRY_BYTES_MAX, EntryId, LedgerId, Sealer, as_bytes
from quire.errors import (
    AppendOutcomeUnknownError,
    BookieBusyError,
    EntryTooLargeError,
    HandleClosedError,
    LedgerClosedError,
    LedgerFencedError,
    QuireError,
)
from quire.ledger.append_steps import AppendSteps
from quire.ledger.closing import Closing, ClosingStage
from quire.ledger.ensemble import Ensemble
from quire.ledger.ensemble_change import EnsembleChange
from quire.ledger.info import LedgerInfo, info_of
from quire.ledger.ledger_record import LedgerRecord
from quire.ledger.metadata import LedgerMetadata, Replica
from quire.ledger.options import LedgerOptions
from quire.ledger.replicate_fragments import FragmentReplication
from quire.ledger.resting import NO_SUSPECTS, RestingLedger
from quire.ledger.roster import Bookies
from quire.metastore.changes import Change
from quire.metrics.meter import SILENT_METER, ClientMeter, WriterFigures
from quire.observer import SILENT, Observer

_log = logging.getLogger(__name__)


class LedgerWriter(Handle):
    """Appends to a ledger that this process created; an async context manager that closes.

    Appends raise `AppendOutcomeUnknownError` when `append_timeout` passes and the entry may
    have been sent, `NotEnoughBookiesError` or another `RetryError` when it was not;
    `LedgerFencedError` when another client took the ledger over, and `LedgerClosedError` once
    it is known to be closed; `HandleClosedError` after `close`. Cancelling an append abandons its
    answer only.
    """

    def __init__(
        self,
        record: LedgerRecord,
        roster: Bookies,
        sealer: Sealer,
        options: LedgerOptions,
        rng: random.Random,
        *,
        deferred_sync: bool = False,
        observer: Observer = SILENT,
        meter: ClientMeter = SILENT_METER,
        later: Later | None = None,
        at: RestingLedger | None = None,
    ) -> None:
        """Take up the ledger of a record just created, or `at` the place where it rested. Needs a
        running loop.

        With `deferred_sync` appends are answered before they are durable: see `force`. `observer`
        is told of confirmed entries and of changes of the ensemble, `meter` of appends as well.
        `later` waits `lac_idle` seconds: writers of one client share it. After a rest the record
        is watched when the owner says so.
        """
        self._loop = asyncio.get_running_loop()
        self._home = home_here()
        self._sealer = sealer
        self._options = options
        self._roster = roster
        self._rng = rng
        self._record, metadata = record, record.metadata
        self._tasks = Tasks()
        self._steps = AppendSteps(
            lambda confirmed: Ensemble(
                *(metadata, sealer.access_key, roster, options, self._tasks),
                confirmed=confirmed,
                failed=lambda: self._change.start(),
                ended=self._ended,
                deferred_sync=deferred_sync,
                at=at,
            ),
            *(sealer, options, observer, meter, later or Later(options.lac_idle), self._expire),
        )
        self._appends = self._steps.appends
        self._ensemble = self._steps.ensemble
        self._forcing = self._steps.forcing
        self._window = self._ensemble.window
        self._backlog = self._ensemble.backlog
        self._change = EnsembleChange(
            *(self._ensemble, self._record, roster, rng, self._tasks),
            changed=self._steps.ensemble_changed,
            ended=self._ended,
            observer=observer,
            meter=meter,
        )
        self._failure: Exception | None = None
        self._closing = Closing(metadata.ledger, self._tasks)
        self._over = asyncio.Event()
        self._is_watched = False
        if at is None:
            self._watch_record()

    def __repr__(self) -> str:
        state = "ended" if self.has_ended else "open"
        return f"<LedgerWriter of ledger {self.ledger}, {state}>"

    @property
    def ledger(self) -> LedgerId:
        """The ledger's id."""
        return self._record.ledger

    def _unchanged(self) -> Sequence[Change]:
        """Return the changes that can be made only while no other client changed the ledger."""
        return self._record.unchanged()

    @property
    def info(self) -> LedgerInfo:
        """The ledger's state, quorums and fragments, as this writer last confirmed them."""
        return info_of(self._metadata)

    @property
    def _metadata(self) -> LedgerMetadata:
        """The ledger's record as this writer last confirmed it."""
        return self._record.metadata

    @property
    def last_confirmed(self) -> EntryId:
        """LAC: the last entry that is durable together with everything below it; −1 for none."""
        return self._window.lac

    @property
    def last_pushed(self) -> EntryId:
        """The last entry that was given an id."""
        return self._window.pushed

    @property
    def length(self) -> int:
        """Payload bytes of the confirmed entries."""
        return self._backlog.length_of(self._window.lac)

    def _figures(self) -> WriterFigures | None:
        """Return the figures that a meter shows."""
        down = len(self._ensemble.ailing)
        return None if self.has_ended else WriterFigures(len(self._window.pending), down)

    async def append(self, payload: bytes) -> EntryId:
        """Append one entry and return its id once it is confirmed.

        Waits for space in the order of the calls.

        Args:
            payload: the entry's bytes.

        Returns:
            The entry's id: one more than the id of the entry before.

        Raises:
            EntryTooLargeError: the payload exceeds the limit.
            TypeError: the payload is not bytes-like.
            QuireError: the errors that the class names.

        Cancellation: abandons the answer only.
        """
        self._home.check(self)
        return await self._append(payload)

    async def append_many(self, payloads: Iterable[bytes]) -> range:
        """Append entries with consecutive ids and return these once the last is confirmed.

        Args:
            payloads: the bytes of each entry.

        Returns:
            The ids.

        Raises:
            QuireError: as `append`. After an error some may be kept, always the first ones.

        Cancellation: abandons the answer only.
        """
        self._home.check(self)
        entries = [as_bytes(payload) for payload in payloads]
        self._check(entries)
        pushed: range = await self._steps.request(entries)
        return pushed

    async def submit(self, payload: bytes) -> asyncio.Future[EntryId]:
        """Wait for space and return a future of the entry's id.

        Args:
            payload: the entry's bytes.

        Returns:
            A future of the entry's id. Futures complete in order.

        Raises:
            QuireError: as `append`, from the call or from the future.

        Cancellation: while the call waits, the entry is not sent, unless there is space at that
            moment.
        """
        self._home.check(self)
        future = self._append(payload, admitted := self._loop.create_future())
        await admitted
        return future

    async def drain(self) -> None:
        """Wait until everything appended so far is answered.

        Raises:
            QuireError: as `append`.

        Cancellation: gives up waiting only.
        """
        self._home.check(self)
        self._check()
        await self._steps.request(())

    async def force(self) -> EntryId:
        """Make everything appended so far durable and confirmed.

        Only a ledger with deferred sync needs it: there an answered append may still be lost, and
        followers do not see it, until it is forced.

        Returns:
            The last confirmed entry (LAC).

        Raises:
            AppendOutcomeUnknownError: it was not done within `append_timeout` seconds.
            QuireError: as `append`.

        Cancellation: gives up waiting; entries may become durable all the same.
        """
        await self.drain()
        await self._force()
        return self._window.lac

    async def close(self) -> None:
        """Wait for appends in flight, then close the ledger at LAC. A second call does nothing.

        Slow bookies that are up get `close_grace` seconds to store their copies. An append that is
        not confirmed within `append_timeout` seconds fails as unknown and is cut off.

        Raises:
            AppendOutcomeUnknownError: an append that is cut off was answered before (deferred
                sync).
            LedgerFencedError: another client recovers the ledger.
            LedgerClosedError: another client closed the ledger at another end.
            NoSuchLedgerError: the ledger was deleted.
            CorruptRecordError: the ledger's record is damaged.
            HandleClosedError: `abandon` was called meanwhile.
            StoreUnavailableError, StoreOutcomeUnknownError: the store did not answer. Retry.
            NotEnoughBookiesError, UnreadableError: with full quorum, copies are missing. Retry.
            QuireError: any other error that ended the writer, such as `UnauthorizedError`.

        Cancellation: abandons the writer.
        """
        await self._closing.run(self._close, self.abandon)

    def abandon(self) -> None:
        """Stop at once, as a crash would: the ledger stays open for another client to recover.

        Appends in flight fail as unknown, a `close` under way with `HandleClosedError`: its
        requests to the metadata store may still be carried out. Later `close` only waits for the
        writer's tasks.
        """
        self._closing.abandon()
        self._halt("the writer was abandoned")

    def _rest(self) -> RestingLedger | None:
        """End the writer and return its ledger at rest, if there is nothing to do; else None.

        Nothing is sent, as in `abandon`, but every entry is confirmed, on all of its bookies, and
        known to followers. Later calls fail as after `close`.
        """
        others = self._tasks.count - self._is_watched
        is_open = not self._closing.is_begun and not self._over.is_set()
        if not is_open or others or not self._record.is_settled or not self._steps.may_rest:
            return None
        suspects = self._ensemble.suspects or NO_SUSPECTS
        place = RestingLedger(self._record, self._sealer, self._window.lac, self.length, suspects)
        self.abandon()
        return place

    @property
    def has_ended(self) -> bool:
        """Whether the writer takes no more appends: closed, abandoned, fenced or refused."""
        return self._over.is_set()

    @property
    def _title(self) -> str:
        """The ledger's number, for messages."""
        return f"ledger {self.ledger}"

    async def wait_ended(self) -> None:
        """Return when the writer takes no more appends: closed, abandoned, fenced or refused.

        Raises:
            Nothing: the next append raises why the writer ended.

        Cancellation: gives up waiting only.
        """
        self._home.check(self)
        await self._over.wait()

    # Reports of the ensemble.

    def _ended(self, error: Exception) -> None:
        """End the writer: another client owns the ledger now, or this one is refused."""
        if self._failure is None and not self._closing.is_decided:
            _log.warning("writer of ledger %d ends: %s", self.ledger, error)
            self._failure = error
            self._halt(str(error))

    def _watch_record(self) -> None:
        """Learn of a take-over although nothing is appended, from now on. Harmless again."""
        if not self._is_watched and not self._over.is_set():
            self._is_watched = True
            self._tasks.start(self._watch(), f"watch of ledger {self.ledger}")

    async def _watch(self) -> None:
        self._ended(await self._record.taken_over())

    # Appending.

    def _append(
        self, payload: bytes, admitted: asyncio.Future[None] | None = None
    ) -> asyncio.Future[EntryId]:
        self._check((payload := as_bytes(payload),))
        return self._steps.append(payload, admitted)

    def _check(self, payloads: Sequence[bytes] = ()) -> None:
        """Raise what speaks against appending."""
        if self._closing.is_begun:
            raise self._closed_error()
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        for payload in payloads:
            if len(payload) > ENTRY_BYTES_MAX:
                raise EntryTooLargeError(len(payload), ENTRY_BYTES_MAX)

    # Deadlines.

    def _expire(self) -> None:
        now = self._loop.time()
        self._ensemble.expire(now, self._appends.is_waiting)
        timeout = self._options.append_timeout
        self._appends.expire(now, timeout, self._unconfirmed, self._refusal)
        self._steps.deadlines.watch()

    def _unconfirmed(self, entry: EntryId) -> QuireError:
        obstacle = f"; {self._change.obstacle}" if self._change.obstacle is not None else ""
        reason = f"it was not confirmed within {self._options.append_timeout:g} s{obstacle}"
        return AppendOutcomeUnknownError(self.ledger, entry, reason)

    def _refusal(self) -> QuireError:
        """Return the error for an append that never found room."""
        if self._change.obstacle is not None and self._ensemble.ailing:
            return self._change.obstacle
        return BookieBusyError(self._ensemble.senders[0].bookie, "its writer found no room in time")

    # Ending.

    async def _close(self) -> None:
        if not self._over.is_set():
            with suppress(QuireError):
                await self._steps.request(())
                await self._force()
            if self._window.lac == self._window.pushed:
                await self._ensemble.settle(self._options.close_grace)
            self._halt("its writer was closed before it was confirmed")
        await self._tasks.join()
        if self._closing.is_decided:
            return
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        self._steps.explicit_lac.tell_at_once(lac := self._window.lac)
        try:
            await self._closing.carry_out(partial(self._end_at, lac))
        finally:
            self._tasks.cancel()
            await self._tasks.join()
        if self._closing.stage is ClosingStage.CLOSED and self._ensemble.answered > lac:
            raise self._unconfirmed(lac + 1)  # deferred sync: no other call can report it

    async def _end_at(self, lac: EntryId) -> None:
        """Close the record; with full quorum, once every entry is on its whole write set."""
        replicas: list[Replica] = []
        if self._metadata.full_quorum and not self._ensemble.is_complete(self._metadata):
            completion = FragmentReplication(self._roster, self._sealer, self._options, self._rng)
            replicas = await completion.run(self._metadata, lac)
        await self._record.close(lac, self.length, self._options.append_timeout, replicas)

    async def _force(self) -> None:
        try:
            async with time_limit(self._options.append_timeout):
                await self._forcing.wait(self._ensemble.answered, self._window.lac)
        except TimeoutError:
            raise self._unconfirmed(self._window.lac + 1) from None

    def _halt(self, reason: str) -> None:
        """Send, count and await nothing any more; fail all waiting callers."""
        self._over.set()
        self._steps.stop()
        self._tasks.cancel()
        taken_over = isinstance(self._failure, LedgerFencedError | LedgerClosedError)

        def unknown(entry: EntryId) -> QuireError:
            if taken_over:
                return LedgerFencedError(self.ledger)
            error = AppendOutcomeUnknownError(self.ledger, entry, reason)
            error.__cause__ = self._failure
            return error

        def refused() -> QuireError:
            return self._failure if isinstance(self._failure, QuireError) else self._closed_error()

        self._appends.expire(math.inf, 0.0, unknown, refused)
        self._forcing.fail(lambda: unknown(self._window.lac + 1))

    def _closed_error(self) -> QuireError:
        return HandleClosedError(f"writer of ledger {self.ledger}")
