"""The leader's handle on a log.

The chain holds the segments, the pipeline moves the records, and five tasks run them:

    pump        sends batches and confirms records (pipeline.py)
    roller      begins new segments; appends never wait for it (roller.py)
    preparer    creates the ledger for the next roll ahead of time
    watcher     detects another leader, also while nothing is appended
    keeper      applies retention, and deletes the ledgers of trimmed segments

The first task that cannot continue ends the handle: every unconfirmed record fails with an unknown
outcome, and every later call fails. An ended handle never recovers; open the log again.

A handle that has nothing to do rests: it has no chain, no pipeline and no tasks until a call needs
one of them (resting.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any

from quire.aio.handle import Handle
from quire.aio.home import this_thread
from quire.aio.retry import retry
from quire.entry import as_bytes
from quire.errors import (
    AppendOutcomeUnknownError,
    DeposedError,
    HandleClosedError,
    LogSealedError,
    OutcomeUnknownError,
    QuireError,
)
from quire.log.leader.failure import Failure
from quire.log.leader.groups import GroupAppends
from quire.log.leader.intake import take_in
from quire.log.leader.life import Event, Refusal, State
from quire.log.leader.numbering import ProducerNumbers
from quire.log.leader.outcome import SINGLE
from quire.log.leader.resting import Desk, RestingParts
from quire.log.leader.segments import LiveSegment
from quire.log.leader.tables import TableAppends
from quire.log.leader.takeover import Tenure
from quire.log.maintenance.doomed import delete_doomed, delete_singles
from quire.log.maintenance.page_sweep import DailySweep
from quire.log.maintenance.retention import Floor, apply_retention
from quire.log.manifest.live_options import LiveOptions
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.options import LogOptions
from quire.log.manifest.record import ManifestRecord
from quire.log.reading.search import find_record, look
from quire.log.records.attributes import NewRecord
from quire.log.records.position import Appended, Position
from quire.log.records.producers import Producers, ProducerSequence
from quire.metrics.meter import LogFigures
from quire.tracing.spans import NO_SPANS, Spans

_log = logging.getLogger(__name__)


class Log(RestingParts, Handle, GroupAppends, TableAppends, ProducerNumbers):
    """A log open for writing, by the leader of one epoch. Made by `LogDirectory.open`.

    Guarantees:
        Records are confirmed in the order of submission. After an `OutcomeUnknownError` the record
        may be in the log. The next leader's recovery decides, and all readers see the same result.
        A deposed leader confirms no more records (docs/protocol.md, "Logs").
    """

    def __init__(
        self,
        desk: Desk,
        record: ManifestRecord,
        options: LogOptions,
        *,
        tenure: Tenure,
        producers: Producers,
        floor: Floor | None = None,
        spans: Spans = NO_SPANS,
    ) -> None:
        super().__init__(desk, record, options, producers, spans)
        self._floor = floor
        self._sweep = DailySweep(record)
        self._failure = Failure()
        current = LiveSegment.begin(tenure.segment, tenure.writer, options)
        live, begun = LiveOptions(record.name, options), asyncio.get_running_loop().time()
        live.follow(tenure.manifest.settings)
        self._make(tenure.manifest, live, current, begun, record.written)

    def _begin(self) -> None:
        """Lead the log. `LogDirectory.open` calls this once."""
        self._start()
        self._start_to_look()
        self._chain.warn_of_clocks()
        where = self.name, self.epoch, self.next_offset
        _log.info("log %r: leads at epoch %d, from offset %d on", *where)

    def _start(self) -> None:
        self._run("pump", self._pipeline.run())
        self._run("roller", self._roller.run())
        self._run("preparer", self._roller.prepare())
        self._roller.age_changed()
        self._look_for_rest()

    def _start_to_look(self) -> None:
        if not self._looks:
            self._looks = True
            self._desk.patrol.forget(self._record.path, self)
            self._chain.current.writer.watch()
            self._run("watcher", self._watch())
            self._run("keeper", self._keep())

    def _run(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(work, f"log {self.name} {what}")

    @property
    def options(self) -> LogOptions:
        """The options that this leader uses now: its own, overridden by the stored options."""
        options: LogOptions = self._at_hand("_live").now
        return options

    def __repr__(self) -> str:
        state = "ended" if self.has_ended else "leads"
        return f"<Log {self.name!r} epoch {self.epoch}, {state}>"

    @property
    def name(self) -> str:
        """The log's name."""
        return self._record.name

    @property
    def log_id(self) -> str:
        """The log's identity. A log that was deleted and recreated has another one."""
        return self._shown_manifest.log_id

    @property
    def epoch(self) -> int:
        """This leader's number: it grows with every takeover and is on every record."""
        return self._shown_manifest.epoch

    @property
    def _shown_manifest(self) -> LogManifest:
        """The manifest that was seen last; a handle at rest goes on resting."""
        manifest: LogManifest = self._at_hand("_chain").manifest
        return manifest

    @property
    def is_deposed(self) -> bool:
        """True once it is known that another leader has taken over."""
        return self._life.state is State.DEPOSED

    @property
    def has_ended(self) -> bool:
        """Whether this handle no longer leads: deposed, failed, sealed, closed or abandoned."""
        return self._life.has_ended

    def _figures(self) -> LogFigures | None:
        """Return the figures that a meter shows."""
        segments = self._shown_manifest.segment_count
        figures = LogFigures(self.name, self.epoch, segments, self.next_offset)
        return None if self.has_ended else figures

    @property
    def _title(self) -> str:
        """The log's name and the epoch, for messages."""
        return f"log {self.name!r} (epoch {self.epoch})"

    @property
    def _untold(self) -> str | None:
        """Why this handle failed, if no call has raised it yet."""
        return self._failure._untold

    @property
    def failure(self) -> str | None:
        """Why this handle failed, so that outcomes are unknown; None if it did not fail."""
        return self._failure.reason

    async def wait_deposed(self) -> None:
        """Return when this handle no longer leads: deposed, failed, sealed or closed.

        Raises:
            Nothing: the next call on the handle raises why it ended.

        Cancellation: gives up waiting only.
        """
        self._rouse()
        await self._over.wait()

    @property
    def next_offset(self) -> int:
        """The offset of a record that is submitted now, unless it is rejected."""
        offset: int = self._at_hand("_pipeline").next_offset
        return offset

    async def submit(
        self,
        record: bytes | NewRecord,
        *,
        expected_offset: int | None = None,
        producer_sequence: ProducerSequence | None = None,
        txid: int | None = None,
    ) -> asyncio.Future[Appended]:
        """Queue a record once there is space, and return the future of its position and offset.

        Args:
            record: the payload, bytes-like; or a `NewRecord`, with a key, headers or an event time.
            expected_offset: queue the record only if it gets this offset. This is decided at the
                moment when there is space: every earlier record counts, confirmed or not.
            producer_sequence: the producer's name and sequence number. If a record with the same
                one is in the log or in flight, it is not written again: the future gets the
                position and offset of the original. It is remembered across takeovers
                (producers.py).
            txid: a number of the application that never decreases along a log; readers can
                start by it. Without one, the record has the txid of the record before.

        Returns:
            A future of the record's position and offset. Futures complete in order of submission.

        Raises:
            TailConflictError: the record would get another offset; nothing was written.
            SequenceConflictError: the producer's number is neither new nor remembered; likewise.
            TxidOrderError: the txid is below the log's last; likewise.
            InvalidRequestError: the producer sequence, txid or offset is invalid.
            LevelNeededError: the cluster's feature level allows no keys, headers or event times.
            PositionTrimmedError: the original of a repeated record was trimmed since.
            QuireError: the errors of reading, when a confirmed original cannot be looked up.
            TypeError: the record is not bytes-like.
            EntryTooLargeError: the record does not fit an entry; also from the future.
            DeposedError: another leader has taken over; also from the future.
            LogSealedError, HandleClosedError: the log or the handle was closed; likewise.
            AppendOutcomeUnknownError: the handle failed; likewise.

        Cancellation:
            Cancelling the future does not recall the record. Cancelling this call while it waits
            may leave a queued record, and no caller learns its outcome.
        """
        home = self._home  # `check`, inlined: 2 % of an append
        if this_thread() != home.thread or not home.runs():
            home.check(self)
        with self._failure:
            is_plain = expected_offset is None and producer_sequence is None and txid is None
            if is_plain and not isinstance(record, NewRecord):
                future = self._pipeline.submit_now(as_bytes(record))
                if future is not None:
                    return future
            self._home.check(self)
            given = (expected_offset, producer_sequence, txid)
            group, terms = await take_in(self._record, (record,), *given)
            return await self._pipeline.submit(group, SINGLE, terms)

    def _submit_now(self, payload: bytes) -> asyncio.Future[Appended] | None:
        """Queue a record if there is space for it now; None without. Raises as `submit`."""
        self._home.check(self)
        with self._failure:
            return self._pipeline.submit_now(as_bytes(payload))

    async def append(
        self,
        record: bytes | NewRecord,
        *,
        expected_offset: int | None = None,
        producer_sequence: ProducerSequence | None = None,
        txid: int | None = None,
    ) -> Appended:
        """Append a record; return its position and offset once they are certain.

        Args:
            record: the payload, or a `NewRecord`.
            expected_offset: append the record only if it gets this offset, as in `submit`.
            producer_sequence: makes a repetition harmless, as in `submit`.
            txid: a number that never decreases along a log, as in `submit`.

        Returns:
            The record's position and offset.

        Raises:
            QuireError: the errors of `submit`.

        Cancellation: does not recall the record.

        Guarantees: an ack quorum has it on disk, and no leader removes it (docs/protocol.md, C2).
        """
        future = await self.submit(
            record, expected_offset=expected_offset, producer_sequence=producer_sequence, txid=txid
        )
        with self._failure:
            return await future

    async def _locate(self, offset: int) -> Position:
        open_segment = self._desk.opener(self.name, self._given.password)
        find = partial(find_record, offset=offset, open_segment=open_segment)
        try:
            return await look(self._chain.find_mine, find)
        except DeposedError as error:
            self._end(error)
            raise

    async def drain(self) -> None:
        """Return when everything submitted is confirmed.

        Raises:
            DeposedError, LogSealedError, HandleClosedError: the handle ended before that.
            AppendOutcomeUnknownError: the handle failed.

        Cancellation: gives up waiting only.
        """
        with self._failure:
            await self._pipeline.drained()

    async def roll(self) -> None:
        """Begin a new segment; return when the old one is sealed.

        Appends go on meanwhile. Without a record in the segment or in flight the call does nothing.
        It is retried while metadata is out of reach.

        Raises:
            DeposedError, LogSealedError, HandleClosedError: the handle ended before that.
            AppendOutcomeUnknownError: the handle failed.

        Cancellation: gives up waiting, not the roll.
        """
        with self._failure:
            self._pipeline.check_open()
            await self._roller.roll(is_idle=self._pipeline.is_idle)

    async def trim(self, position: Position) -> None:
        """Remove every record before a position that this log has reached.

        Args:
            position: the first position to keep.

        Raises:
            InvalidRequestError: the position is beyond the end, or invalid.
            DeposedError: another leader has taken over.
            StoreUnavailableError: the metadata store is unavailable; likewise its other errors.

        Cancellation: the log may be trimmed all the same.

        Guarantees: the trim is complete when the call returns; ledgers may be deleted later.
            Concurrent trims merge.
        """
        self._pipeline.check_open()
        self._chain.check_trim(position)
        try:
            manifest = await self._chain.edit(lambda manifest: manifest.trim(position))
            await delete_doomed(self._desk.segments, manifest, self._chain.edit)
        except DeposedError as error:
            self._end(error)
            raise

    async def seal(self) -> None:
        """Confirm all submitted records, then seal the log permanently and close the handle.

        Raises:
            DeposedError: another leader has taken over.
            AppendOutcomeUnknownError: the handle failed. It is closed, but the log is not sealed.
            QuireError: the store's errors, when the log could not be sealed within `open_timeout`
                seconds. The handle is closed, but the log is not sealed.

        Cancellation: abandons the handle. The log may be sealed.
        """
        await self._finish(lambda: LogSealedError(self.name), seal_log=True)

    async def close(self) -> None:
        """Confirm all submitted records and seal the segment, so that the next leader needs no
        recovery.

        Safe to repeat, and safe on a deposed or abandoned handle.

        Raises:
            AppendOutcomeUnknownError: the handle has failed, now or before: submitted records may
                be unconfirmed.
            QuireError: the store's errors, when the segment could not be sealed within
                `open_timeout` seconds.

        Cancellation:
            Abandons the handle.

        Guarantees:
            No acknowledged record is lost after an error: the next leader seals the segment.
        """
        try:
            await self._finish(lambda: HandleClosedError(f"log {self.name!r}"), seal_log=False)
        except DeposedError:
            return
        if self._life.state is State.FAILED:
            assert self._failure.reason is not None, "a failure has a reason"
            with self._failure:
                raise self._outcome_unknown(self._failure.reason)

    async def _finish(self, error: Refusal, *, seal_log: bool) -> None:
        if self._life.has_ended and not seal_log:
            if self._resting is None:
                await self._tasks.stop()
            return
        try:
            self._life.move(Event.CLOSE, error)
            self._pipeline.close(error)
            finish = partial(self._chain.finish, seal_log=seal_log)
            await self._pipeline.drained()
            await self._tasks.stop()
            manifest = await retry(finish, self._desk.rng, timeout=self.options.open_timeout)
            await delete_singles(self._desk.segments, manifest, self._chain.edit)
            self._end_with(Event.SEAL if seal_log else Event.FINISH, error)
        except DeposedError as deposed:
            self._end(deposed)
            raise
        finally:
            self.abandon()
            if self._resting is None:
                await self._tasks.stop()

    def abandon(self) -> None:
        """Drop everything as a crash would: nothing is closed, outcomes stay unknown."""
        self._end_with(Event.ABANDON, partial(self._outcome_unknown, "the log was abandoned"))
        if self._resting is None:
            self._tasks.cancel()

    # How it ends.

    def _fail(self, error: Exception) -> None:
        """End with the error of a task."""
        if not isinstance(error, QuireError):
            _log.error("leader of log %r meets a defect", self.name, exc_info=error)
        self._end(error)

    def _end(self, error: Exception) -> None:
        if isinstance(error, DeposedError):
            deposed = partial(DeposedError, self.name, self.epoch, error.reason)
            self._end_with(Event.DEPOSE, deposed)
        elif not self._life.has_ended:
            told = error.reason if isinstance(error, AppendOutcomeUnknownError) else str(error)
            self._failure.reason = reason = told or repr(error)
            self._end_with(Event.FAIL, partial(self._outcome_unknown, reason))

    def _end_with(self, event: Event, error: Refusal) -> None:
        if not self._life.move(event, error):
            return
        self._over.happen()
        self._stay()
        if self._resting is not None:
            return
        self._pipeline.stop(error)
        self._chain.abandon()
        self._live.call_nobody()
        self._roller.end(error)
        self._tasks.cancel_others()

    def _outcome_unknown(self, reason: str) -> OutcomeUnknownError:
        current = self._chain.current
        entry = current.confirmed.last_entry + 1
        return AppendOutcomeUnknownError(current.writer.ledger, entry, reason)

    # The tasks.

    async def _watch(self) -> None:
        while True:
            await retry(self._look, self._desk.rng)

    async def _look(self) -> None:
        manifest, version = await self._record.find()
        await self._chain.confirm_mine(manifest, version)
        await self._record.wait(version)

    async def _keep(self) -> None:
        while True:
            self._kept_at = None
            await retry(self._keep_once, self._desk.rng)
            self._kept_at = asyncio.get_running_loop().time()
            await asyncio.sleep(self.options.retention_interval)

    async def _keep_once(self) -> None:
        cursors = self._desk.cursors(self.name, password=self._given.password)
        slowest = partial(cursors._slowest, self.log_id)
        chain = self._chain
        await apply_retention(
            self._desk.segments, self._live, chain.reading, chain.edit, slowest, self._floor
        )
        await self._sweep.run()
