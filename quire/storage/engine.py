"""The machinery of a storage node: journal, ledger storage, their files and their upkeep, put
together.

It starts by replaying, ends by flushing, and in between turns accepted changes into journal records
and durable records into state. The node decides about acceptance (node.py).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import random
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from quire.aio.answer import settle
from quire.aio.timing import time_limit
from quire.entry import EntryId, LedgerId
from quire.errors import (
    BookieBusyError,
    BookieUnavailableError,
    CorruptEntryError,
    ReadOnlyBookieError,
)
from quire.observer import SILENT, Observer, Source
from quire.run import ScannedRun, scan_run
from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.disk.port import Disk
from quire.storage.entries.checkpoint import FIRST
from quire.storage.entries.ledger_storage import LedgerStorage
from quire.storage.entries.memory_limiter import Gate
from quire.storage.entries.reserve import Reserve
from quire.storage.entries.run_path import RunPath
from quire.storage.entries.subjects import FenceSubject, KeySubject, RunSubject, Subject
from quire.storage.entries.write_cache import cost
from quire.storage.fills import Fills
from quire.storage.journal.journal import FULL, Journal
from quire.storage.journal.options import StorageOptions
from quire.storage.journal.record import Record, RecordKind
from quire.storage.journal.replay import JournalPosition, replay
from quire.storage.journal.segments import Segments
from quire.storage.maintenance.compaction import Compactor
from quire.storage.maintenance.disowning import Superfluous
from quire.storage.maintenance.flushing import NEARLY_FULL, Upkeep
from quire.storage.maintenance.garbage import Collector, Deletions
from quire.storage.maintenance.read_repair import Patcher
from quire.storage.maintenance.replicas_port import OpenCopies, Orders
from quire.storage.maintenance.scrub import Scrubber
from quire.storage.maintenance.self_repair import Mender
from quire.tracing.spans import NO_SPANS, Spans

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

_log = logging.getLogger(__name__)

HANGING: Final = "its disk does not answer"

_LEDGER: Final = struct.Struct(">q")


@dataclass(slots=True)
class ReplayCounts:
    """Records that the start found in the journal after the last checkpoint."""

    records: int = 0
    bytes: int = 0
    milliseconds: int = 0
    """Until all of it was in entry logs, and the bookie could serve."""


class Engine:
    """See the module. Owned by the node; `start` before anything else."""

    def __init__(
        self,
        disk: Disk,
        bookie: str,
        options: StorageOptions,
        rng: random.Random,
        on_fatal: Callable[[BaseException], None],
        observer: Observer = SILENT,
    ) -> None:
        self.bookie: Final = bookie
        self.observer: Final = observer
        self.options: Final = options
        self.storage: Final = LedgerStorage(disk, bookie, options)
        self.gate: Final = Gate(
            bookie,
            options.memory_bytes_max,
            self._request_flush,
            stall_seconds=options.stall_seconds,
        )
        self.compactor: Final = Compactor(disk, self.storage, options)
        self.patcher: Final = Patcher(self.storage, self.compactor, options, self._store_copies)
        self.fills: Final = Fills()
        self._disk = disk
        self._on_fatal = on_fatal
        self._rng = rng
        self._failure: str | None = None
        self._suspect: Callable[[LedgerId, EntryId], None] | None = None
        self._replayed = ReplayCounts()
        self._found: list[ScannedRun] = []
        """Replayed, and not flushed yet."""
        self._counted: dict[str, DataclassInstance] = {
            "replay": self._replayed,
            "compaction": self.compactor.counts,
            "pace": self.patcher.pace.counts,
            "read": self.storage.read_counts,
        }
        self._reserve = Reserve(disk, options)
        self._segments = Segments(disk, bookie, options, rng, self._die, self._reserve.restore)
        self._journal: Journal[Subject] = Journal(
            self._segments,
            options,
            bookie=bookie,
            apply=self._apply,
            on_fatal=self._die,
            on_idle=self._witness,
            on_refused=self._forget,
        )
        self.runs: Final = RunPath(self._journal, self.storage, observer, self.patcher.pace.waited)
        self.upkeep: Final = Upkeep(
            bookie,
            disk,
            self.storage,
            self._segments,
            self.gate,
            options,
            self._journal.position,
            self._die,
            self._reserve,
        )

    async def start(self) -> None:
        """Replay the journal and begin to serve.

        Replayed records are written anew and synced first: after a failed sync the page cache may
        show bytes that the disk does not hold. Raises `CorruptStorageError` and OSError.
        """
        begun = asyncio.get_running_loop().time()
        await self.upkeep.look_for_room()
        await self.storage.load()
        await self._reserve.load()
        await self._renew_names()
        start = self.storage.checkpoint.position
        numbers = await self._segments.load(start.segment)
        is_first = start == FIRST.position
        end = start if is_first else await self._replay_all(start, numbers)
        segment = await self._with_reserve(lambda: self._segments.create(previous=0))
        position = JournalPosition(segment.header.number, BLOCK_BYTES, end.sequence)
        await self._flush_replayed(position)
        if is_first:
            await self.storage.flush(lambda: position)  # replaces the first: formatting.py
        await self._segments.release(position.segment)
        await self._stock(is_first)
        self._tell_of_ledgers()
        self._journal.start(segment, end.sequence)
        self.upkeep.start()
        self._tell_of_replay(asyncio.get_running_loop().time() - begun)

    async def _renew_names(self) -> None:
        """Make the names of the files durable that the start goes by, on a full disk in the space
        of the reserve. Where even that is too small they stay as they are: the next start with
        space does it.
        """
        try:
            await self._reserve.lend(self.storage.renew)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise

    async def _stock(self, is_first: bool) -> None:
        """Make the reserve that the next start needs on a full disk. A bookie that served before
        has had it, so it serves without, and entries wait for space; a new bookie needs it before
        it serves.
        """
        try:
            await self._segments.stock()
        except OSError as error:
            if is_first or error.errno != errno.ENOSPC:
                raise
            self._segments.is_starved = True

    async def _replay_all(self, start: JournalPosition, numbers: list[int]) -> JournalPosition:
        """Replay the journal, and move all of it into entry logs. Return where it ended, which is
        in the one segment that is left: others have become spares.
        """
        end = await replay(
            self._disk, self.bookie, start, numbers, self._replay, self._keep_replayed
        )
        await self.storage.remove_unlisted()
        await self._flush_replayed(end)
        await self._segments.keep_only(end.segment)
        return end

    async def _keep_replayed(self, position: JournalPosition) -> None:
        """Flush the records replayed before a segment, so that with the segment they always fit
        into the reserve.
        """
        if self.storage.cached_bytes >= self.options.replayed_bytes_max:
            await self._flush_replayed(position)
            await self._segments.release(position.segment)

    async def _flush_replayed(self, position: JournalPosition) -> None:
        await self._with_reserve(lambda: self.storage.flush(lambda: position))
        for run in self._found:
            self.observer.held(run.ledger, run.entries, Source.REPLAY)
        self._found.clear()

    async def _with_reserve(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do a step of the start, on a full disk in the space of the reserve."""
        try:
            return await work()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            await self._reserve.give_up()
            await self._segments.drop_spares()  # spares that the replay has released
            return await work()

    def _tell_of_ledgers(self) -> None:
        """Tell the observer of fences and limbo. A fence that was replayed is durable only now, and
        a life that ended between its flush and here did not tell of it.
        """
        for ledger, state in sorted(self.storage.states.items()):
            if state.in_limbo:
                self.observer.salvaged(ledger)
            elif state.is_fenced:
                self.observer.fenced(ledger)

    def _tell_of_replay(self, seconds: float) -> None:
        found = self._replayed
        if found.records:
            found.milliseconds = round(1000 * seconds)
            told = "bookie %s replayed %d records, %.1f MB, of its journal in %.2f s"
            _log.info(told, self.bookie, found.records, found.bytes / 1e6, seconds)

    def _replay(self, record: Record) -> None:
        self._replayed.records += 1
        self._replayed.bytes += len(record.body)
        if record.kind is RecordKind.RUN:
            run = scan_run(record.body)
            if self.storage.memory.apply_run(run):
                self.observer.held(run.ledger, run.entries, Source.FOUND)
                self._found.append(run)
        elif record.kind is not RecordKind.MARK:
            is_key = record.kind is RecordKind.LEDGER
            apply = self.storage.apply_key if is_key else self.storage.apply_fence
            (ledger,) = _LEDGER.unpack_from(record.body)
            apply(ledger, record.body[_LEDGER.size :])

    def _apply(self, subjects: list[Subject]) -> None:
        self.runs.apply(subjects)
        self.upkeep.look()

    def append_run(
        self, run: bytes, scanned: ScannedRun, source: Source, arrived: float | None = None
    ) -> asyncio.Future[None]:
        """Journal a run; the future is done when its entries are durable and can be read. `arrived`
        is when a run came that had to wait for space, by the clock of the loop.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.runs.put(run, scanned, source, partial(settle, done), arrived)
        self.fills.note(scanned)
        return done

    def _forget(self, subject: Subject) -> None:
        """Give back the space of a run that was refused after all."""
        if isinstance(subject, RunSubject):
            self.gate.leave(cost(subject.scanned))

    def append_fence(self, ledger: LedgerId, key: bytes) -> asyncio.Future[None]:
        """Journal a fence; the future is done when it is durable and all before it is applied."""
        body = _LEDGER.pack(ledger) + key
        return self._journal.append(RecordKind.FENCE, body, FenceSubject(ledger, key))

    def append_key(self, ledger: LedgerId, key: bytes) -> None:
        """Journal a ledger's first key, ahead of its request. No task waits for it alone."""
        body = _LEDGER.pack(ledger) + key
        self._journal.append(RecordKind.LEDGER, body, KeySubject(ledger, key)).cancel()

    def _witness(self) -> None:
        """Let a batch follow that proves earlier batches durable. No task waits for it."""
        if self._failure is None:
            self._journal.append(RecordKind.MARK, b"", None).cancel()

    async def settle(self) -> None:
        """Return when everything accepted before is durable and applied."""
        await self._journal.append(RecordKind.MARK, b"", None)

    def counters(self) -> dict[str, int]:
        """Return the counters of the storage since the start, by name."""
        counted = {**self._counted, "journal": self._journal.counts_now()}
        return {
            f"{work}_{field.name}": getattr(counts, field.name)
            for work, counts in sorted(counted.items())
            for field in fields(counts)
        }

    def collector(self, deletions: Deletions, superfluous: Superfluous | None = None) -> Collector:
        """Return the collector of this bookie, to be started and closed by the caller."""
        collector = Collector(
            self.bookie,
            self._disk,
            self.storage,
            self.compactor,
            self._reserve,
            deletions,
            self.options,
            self._die,
            self.observer,
            superfluous,
        )
        self._counted["collection"] = collector.counts
        if collector.disowner is not None:
            self._counted["disowning"] = collector.disowner.counts
        return collector

    def scrubber(self, copies: OpenCopies | None = None) -> Scrubber:
        """Return the scrubber of this bookie, to be started and closed by the caller."""
        scrubber = Scrubber(
            *(self.bookie, self._disk, self.storage, self.compactor, self.options, self._die),
            rng=self._rng,
            patcher=self.patcher,
            copies=copies,
        )
        self._counted["scrub"] = scrubber.counts
        self._suspect = scrubber.suspect
        return scrubber

    def mender(
        self, copies: OpenCopies, orders: Orders | None = None, spans: Spans = NO_SPANS
    ) -> Mender:
        """Return the mender of this bookie, to be started and closed by the caller."""
        mender = Mender(
            *(self.bookie, self.storage, self.patcher, copies, orders, self.options),
            spans=spans,
            has_room=lambda: self.upkeep.is_writable,
            flush=self.upkeep.flush_to_its_end,
            request_flush=self._request_flush,
            on_fatal=self._die,
        )
        self._counted["mending"] = mender.counts
        return mender

    async def _store_copies(self, run: bytes) -> None:
        """Make entries durable that another bookie gave us, under no key.

        Raises `BookieUnavailableError`, and `BookieBusyError` or `ReadOnlyBookieError` when memory
        or the disk lacks space: the rest is kept for fences and recoveries.
        """
        self.check_room()
        scanned = scan_run(run)
        size = cost(scanned)
        await self.gate.enter(size)
        try:
            stored = self.append_run(run, scanned, Source.COPY)
        except BaseException:
            self.gate.leave(size)
            raise
        await stored

    def _request_flush(self) -> None:
        self.upkeep.request_flush()

    def check_alive(self) -> None:
        """Raise `BookieUnavailableError` after a failure or the end."""
        if self._failure is not None:
            raise BookieUnavailableError(self.bookie, self._failure)

    def check_room(self) -> None:
        """Raise as `check_moving`, and without space for new entries `BookieBusyError` or
        `ReadOnlyBookieError`: the rest of memory or disk is kept for fences and recoveries.
        """
        self.check_moving()
        if self.gate.is_stalled:
            raise self.gate.stalled()
        if not self.upkeep.is_writable:
            raise ReadOnlyBookieError(self.bookie, NEARLY_FULL)

    @property
    def has_room(self) -> bool:
        """Whether `check_room` has nothing to say."""
        return (
            self._failure is None
            and self.upkeep.is_writable
            and not self.gate.is_stalled
            and not self.is_stalled
        )

    @property
    def is_hanging(self) -> bool:
        """The disk has kept the journal for so long that nothing more is sent to it."""
        return self._journal.busy_seconds() > self.options.stall_seconds

    @property
    def is_stalled(self) -> bool:
        """The disk hangs, or the journal has waited as long for space on it."""
        return self._journal.has_waited(self.options.stall_seconds)

    @property
    def is_moving(self) -> bool:
        """Whether `check_moving` has nothing to say."""
        return self._failure is None and not self.is_stalled

    def check_moving(self) -> None:
        """Raise as `check_alive`, and `BookieBusyError` while the disk hangs, or the journal has
        waited as long for space on it.
        """
        self.check_alive()
        if self.is_stalled:
            raise BookieBusyError(self.bookie, HANGING if self.is_hanging else FULL)

    def check_fencing(self) -> None:
        """Raise as `check_moving`, but while the journal waits for space only when its part for
        fences is used up.
        """
        if self.is_hanging or not self._journal.takes_fences:
            self.check_moving()
        self.check_alive()

    async def from_disk(self, reading: Awaitable[T]) -> T:
        """Return as `watched`. Raises `BookieBusyError` when the disk hangs."""
        try:
            async with time_limit(self.options.stall_seconds):
                return await self.watched(reading)
        except TimeoutError:
            raise BookieBusyError(self.bookie, HANGING) from None

    async def watched(self, reading: Awaitable[T]) -> T:
        """Return the result of a read; damage that it meets is looked at soon."""
        try:
            return await reading
        except CorruptEntryError as error:
            if self._suspect is not None:
                self._suspect(error.ledger, error.entry)
            raise

    def _die(self, error: BaseException) -> None:
        """Refuse everything from now on, and have the process ended."""
        if self._failure is None:
            self._stop(f"it failed: {error}")
            self._on_fatal(error)

    def _stop(self, reason: str) -> None:
        self._failure = reason
        for ledger in sorted(self.storage.states):
            self.storage.states[ledger].wake()

    async def close(self) -> None:
        """Finish accepted work, flush, and stop; a disk that hangs is given up on after a
        while.
        """
        if self._failure is None:
            try:
                async with time_limit(self.options.close_seconds):
                    await self._journal.close()
                    await self.upkeep.close()
                    await self.upkeep.flush()
            except TimeoutError:
                pass
        await self.abort()

    async def abort(self) -> None:
        """Stop as a crash would; changes that are not durable are lost."""
        if self._failure is None:
            self._stop("it is closed")
        await self.upkeep.abort()
        await self._journal.abort()
        await self.storage.close()
