"""The storage node: the port `Bookie` over journal and ledger storage.

Everything that changes a ledger is a journal record; it is accepted in one step without awaiting,
and takes effect when it is durable, in the order of acceptance. From that follow the laws of the
port:

  B2  an add returns when its record is durable and applied; reads see applied entries only
  B6  a fence is noted on acceptance, so no later ordinary add is accepted; its record stands after
      every add accepted before, so once it is durable those are applied, and recovery sees them
      (a deferred one when it is accepted; `sync` waits for its record); no client is told of a
      fence, or refused because of one, before it is durable
  B12 an ordinary add of an entry that is held replaces it never: the same bytes are acked again,
      others refused; a recovery keeps the payload (B16, held.py)
  B11 a ledger that was dropped because it was deleted leaves its id: ordinary adds are refused as
      after a fence, and every other request is told that the ledger was retired

Not here: journal, files and flushes (engine.py). Time-outs and connections are the service's.
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from quire.aio.answer import settle
from quire.aio.timing import time_limit
from quire.bookie import READ_BYTES_MAX, BookieInfo, LedgerTail, Stride, check_range, refused
from quire.entry import NO_ENTRY, OPEN_KEY, BookieId, EntryId, LedgerId
from quire.errors import (
    CorruptEntryError,
    EntryUnknownError,
    InvalidRequestError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    QuireError,
    ReadOnlyBookieError,
    UnauthorizedError,
)
from quire.observer import SILENT, Observer, Source
from quire.outline import Outline, check_outlines
from quire.run import ScannedRun, scan_run
from quire.storage.direct_adds import DirectAdds
from quire.storage.disk.port import Disk
from quire.storage.engine import Engine
from quire.storage.entries.extents import join_ranges
from quire.storage.entries.ledger_state import KEY_BYTES_MAX, LedgerState
from quire.storage.entries.write_cache import cost
from quire.storage.fills import meets
from quire.storage.held import check_held
from quire.storage.identity.cookie import check_cookie, renew_cookie
from quire.storage.journal.options import StorageOptions
from quire.storage.maintenance.disowning import Superfluous
from quire.storage.maintenance.garbage import Collector, Deletions
from quire.storage.maintenance.replicas_port import OpenCopies, Orders
from quire.storage.maintenance.scrub import Scrubber
from quire.storage.maintenance.self_repair import Mender
from quire.storage.serving.offered_run import OfferedRun
from quire.tracing.spans import NO_SPANS, Spans


class BookieNode:
    """A bookie. Made by `open`; its owner closes it."""

    def __init__(self, disk: Disk, engine: Engine) -> None:
        self.bookie: Final[BookieId] = engine.bookie
        self._disk = disk
        self._engine = engine
        self._storage = engine.storage
        self._observer = engine.observer
        self._queued_adds: set[asyncio.Future[None]] = set()  # not in the journal's queue yet
        self._direct = DirectAdds(engine, self._queued_adds)

    @classmethod
    async def open(
        cls,
        disk: Disk,
        bookie: BookieId,
        cluster: str,
        *,
        rng: random.Random,
        on_fatal: Callable[[BaseException], None],
        options: StorageOptions | None = None,
        observer: Observer = SILENT,
    ) -> BookieNode:
        """Check the cookie, replay the journal, and serve.

        `rng` draws the identities of journal segments and where a scrub begins. `on_fatal` is
        called once when the process must end; the node refuses everything from then on.
        `observer` is told of what took effect.
        Raises `ConfigurationError`, `WrongBookieError`, `CorruptStorageError` and OSError.
        """
        await check_cookie(disk, bookie, cluster)
        await renew_cookie(disk)
        engine = Engine(disk, bookie, options or StorageOptions(), rng, on_fatal, observer)
        try:
            await engine.start()
        except BaseException:
            await engine.abort()
            raise
        return cls(disk, engine)

    @property
    def is_writable(self) -> bool:
        """Whether new entries are taken. A read-only bookie reads, fences and takes recovery
        adds.
        """
        return self._engine.has_room

    def add(
        self,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        *,
        recovery: bool = False,
        deferred: bool = False,
    ) -> asyncio.Future[None]:
        """See `Bookie.add`. The caller may cancel; the run is then stored or not.

        An acceptable run goes to the journal in the same step of the loop. A run that must wait or
        is refused takes a task, and later runs queue after it.
        """
        try:
            scanned = self._direct.scan(ledger, run)
        except QuireError as error:
            return refused(error)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        told = partial(settle, done)
        if not deferred and self._direct.take_one(run, scanned, key, recovery, told):
            return done
        adding = asyncio.ensure_future(self._add(ledger, key, run, scanned, recovery, deferred))
        self._queued_adds.add(adding)
        adding.add_done_callback(self._queued_adds.discard)
        return adding

    def take(self, offers: Sequence[OfferedRun], first: int) -> int:
        """See `RunTaker.take`."""
        return self._direct.take(offers, first)

    def _append(
        self,
        state: LedgerState,
        run: bytes,
        scanned: ScannedRun,
        recovery: bool,
        arrived: float | None = None,
    ) -> asyncio.Future[None]:
        """Append a run to the journal, in the step of its admission."""
        source = Source.RECOVERY if recovery else Source.WRITER
        stored = self._engine.append_run(run, scanned, source, arrived)
        state.accepted = max(state.accepted, scanned.last)
        return stored

    async def _add(
        self,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        scanned: ScannedRun,
        recovery: bool,
        deferred: bool,
    ) -> None:
        stored = await self._accept(ledger, key, run, scanned, recovery)
        task = asyncio.current_task()
        assert task is not None
        self._queued_adds.discard(task)
        if not deferred:
            await stored

    async def _accept(
        self, ledger: LedgerId, key: bytes, run: bytes, scanned: ScannedRun, recovery: bool
    ) -> asyncio.Future[None]:
        """Wait for an add's turn and for space, and append it to the journal."""
        size, gate = cost(scanned), self._engine.gate
        arrived = asyncio.get_running_loop().time()
        is_believed = recovery and key != OPEN_KEY  # it cannot be compared (held.py)
        if not gate.try_enter(size):
            self._check_takes(recovery)
            await gate.enter(size, has_priority=recovery)
        try:
            compared = NO_ENTRY
            with self._engine.fills.watch(ledger) as fills:
                while True:
                    state = await self._admit(ledger, key, recovery)
                    is_new = scanned.entries[0] > state.highest
                    is_compared = compared == state.highest and not meets(scanned, fills)
                    if is_believed or is_new or is_compared:
                        self._note_key(state, key)
                        return self._append(state, run, scanned, recovery, arrived)
                    compared = state.highest
                    fills.clear()
                    # Fenced meanwhile? It is admitted anew.
                    await check_held(self._engine, run, scanned, recovery=recovery)
        except BaseException:
            gate.leave(size)
            raise

    async def _admit(self, ledger: LedgerId, key: bytes, recovery: bool) -> LedgerState:
        """Return the ledger's state if it takes the add. Waits only in order to refuse."""
        self._check_takes(recovery)
        retired = self._storage.retired
        retired.check_kept(ledger) if recovery else retired.check_writer(ledger)
        state = await self._authorize(ledger, key)
        if not recovery:
            await self._check_fence(state)
        return state

    def _check_takes(self, recovery: bool) -> None:
        if recovery:
            self._engine.check_moving()
        else:
            self._engine.check_room()

    async def _authorize(self, ledger: LedgerId, key: bytes) -> LedgerState:
        """Return the ledger's state if the key is right. A durable key alone refuses another."""
        if len(key) > KEY_BYTES_MAX or ledger < 0:
            raise InvalidRequestError(f"key of {len(key)} bytes for ledger {ledger} is impossible")
        state = self._storage.state(ledger)
        if not state.accepts(key):
            if not state.is_key_durable:
                await self._engine.settle()
            raise UnauthorizedError(ledger)
        return state

    async def _check_fence(self, state: LedgerState) -> None:
        """Raise `LedgerFencedError` for a fenced ledger, once the fence is durable.

        A ledger in limbo is fenced as well, but its writer need not be deposed for it: to the
        writer this bookie takes no new entries.
        """
        if state.in_limbo:
            reason = f"it may have lost something of ledger {state.ledger}"
            raise ReadOnlyBookieError(self.bookie, reason)
        if state.fence is not None:
            await asyncio.shield(state.fence)
        if state.is_fenced:
            self._observer.refused(state.ledger)
            raise LedgerFencedError(state.ledger)

    def _note_key(self, state: LedgerState, key: bytes) -> None:
        if state.key is None:
            self._engine.append_key(state.ledger, key)
            state.key = key

    async def _fence(self, ledger: LedgerId, key: bytes) -> None:
        """Fence a ledger; returns when key and fence are durable and older adds are applied."""
        self._engine.check_fencing()
        self._storage.retired.check_kept(ledger)
        state = await self._authorize(ledger, key)
        if state.is_fenced:
            return
        if state.fence is None:
            state.fence = self._engine.append_fence(ledger, key)
            state.key = key
        await asyncio.shield(state.fence)

    async def read(
        self,
        ledger: LedgerId,
        first: EntryId,
        last: EntryId,
        *,
        fence_key: bytes | None = None,
        bytes_max: int = READ_BYTES_MAX,
        stride: Stride | None = None,
    ) -> bytes:
        """See `Bookie.read`."""
        self._engine.check_alive()
        if not 0 <= first <= last or bytes_max < 1:
            raise InvalidRequestError(
                f"entries {first} to {last} in {bytes_max} bytes are not a range: expected "
                "0 <= first <= last and at least 1 byte"
            )
        if fence_key is not None:
            await self._fence(ledger, fence_key)
        is_doubtful = self._storage.is_doubtful(ledger)  # before: it may be made whole meanwhile
        state = self._known(ledger)
        if state is not None:
            run = await self._read(ledger, first, last, bytes_max)
            if run is not None:
                return run
        self._storage.retired.check_kept(ledger)
        if is_doubtful:
            raise EntryUnknownError(ledger, first, "this bookie may have lost it")
        if fence_key is not None:
            self._observer.denied(ledger, first, last)
        raise NoSuchLedgerError(ledger) if state is None else NoSuchEntryError(ledger, first, last)

    async def _read(
        self, ledger: LedgerId, first: EntryId, last: EntryId, bytes_max: int
    ) -> bytes | None:
        """Return as `LedgerStorage.read`. Damage names a requested entry: the disk names a chunk by
        its first entry, and a client would mistake that for the answer to another request.
        """
        try:
            return await self._engine.from_disk(self._storage.read(ledger, first, last, bytes_max))
        except CorruptEntryError as error:
            raise CorruptEntryError(ledger, max(first, error.entry), error.reason) from error

    def _known(self, ledger: LedgerId) -> LedgerState | None:
        state = self._storage.states.get(ledger)
        return None if state is None or not state.is_known else state

    async def read_tail(self, ledger: LedgerId, *, fence_key: bytes | None = None) -> LedgerTail:
        """See `Bookie.read_tail`."""
        self._engine.check_alive()
        if fence_key is not None:
            await self._fence(ledger, fence_key)
        self._storage.retired.check_kept(ledger)
        tail = await self._tail(ledger)
        self._storage.retired.check_kept(ledger)
        return tail

    async def _tail(self, ledger: LedgerId) -> LedgerTail:
        # First: a ledger that was given up may be in limbo again, with or without its entries.
        if self._storage.is_doubtful(ledger):
            raise EntryUnknownError(ledger, NO_ENTRY, "this bookie may have lost its end")
        if self._storage.retired.is_dropped(ledger):
            return LedgerTail(fenced=True)
        state = self._known(ledger)
        if state is None:
            return LedgerTail()
        frame: bytes | None = None
        if state.last != NO_ENTRY:
            last = state.last
            run = await self._engine.from_disk(self._storage.read(ledger, last, last, 1))
            if run is None:  # meanwhile the ledger was deleted, or its end left out as damaged
                is_another = self._storage.states.get(ledger) is not state
                assert is_another or state.last < last, f"{ledger} lost {last}"
                return await self._tail(ledger)
            (at,) = scan_run(run).frames
            frame = run[at.offset :]
        return LedgerTail(frame, state.packet, state.confirmed, state.is_fenced)

    async def wait_tail(self, ledger: LedgerId, above: EntryId, timeout: float) -> LedgerTail:
        """See `Bookie.wait_tail`."""
        if self.lac(ledger) <= above:
            await self.wait_change(ledger, above, timeout)
        self._engine.check_alive()
        return await self._tail(ledger)

    async def wait_change(self, ledger: LedgerId, above: EntryId, timeout: float) -> None:
        """See `ChangeWaiter.wait_change`."""
        state = self._storage.state(ledger)
        try:
            async with time_limit(timeout):
                while state.confirmed <= above and not self._is_over(ledger, state):
                    self._engine.check_alive()
                    await self._change(state)
        except TimeoutError:
            pass
        finally:
            self._storage.forget_if_unknown(state)
        self._engine.check_alive()

    def _is_over(self, ledger: LedgerId, state: LedgerState) -> bool:
        """Return whether no ordinary add will be taken: a dropped ledger need not have a fence."""
        return state.is_fenced or self._storage.retired.is_dropped(ledger)

    async def _change(self, state: LedgerState) -> None:
        """Wait until the waiters of a ledger are woken."""
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        state.waiters.append(changed)
        try:
            await changed
        finally:
            if changed in state.waiters:
                state.waiters.remove(changed)

    async def write_lac(self, ledger: LedgerId, key: bytes, packet: bytes) -> None:
        """See `Bookie.write_lac`. Kept in memory and by flushes."""
        self._engine.check_alive()
        self._storage.retired.check_writer(ledger)
        state = await self._authorize(ledger, key)
        await self._check_fence(state)
        try:
            if state.set_packet(packet):
                self._note_key(state, key)
                self._storage.touch(ledger)
                state.wake()
        finally:
            self._storage.forget_if_unknown(state)

    async def sync(
        self, ledger: LedgerId, key: bytes, first: EntryId, last: EntryId
    ) -> list[tuple[EntryId, EntryId]]:
        """See `Bookie.sync`."""
        self._engine.check_moving()
        check_range(first, last)
        self._storage.retired.check_writer(ledger)
        state = await self._authorize(ledger, key)
        await self._check_fence(state)
        self._storage.forget_if_unknown(state)
        await self._engine.settle()
        self._storage.retired.check_writer(ledger)
        return await self._engine.from_disk(self._storage.lists.all(ledger, first, last))

    async def list_entries(
        self, ledger: LedgerId, first: EntryId = 0
    ) -> list[tuple[EntryId, EntryId]]:
        """See `Bookie.list_entries`."""
        self._engine.check_alive()
        if first < 0:
            raise InvalidRequestError(
                f"entries cannot be listed from {first} on: expected 0 or higher"
            )
        return await self._engine.from_disk(self._storage.lists.some(ledger, first))

    async def list_ledgers(self, first: LedgerId = 0) -> list[tuple[LedgerId, LedgerId]]:
        """See `Bookie.list_ledgers`."""
        self._engine.check_alive()
        states = self._storage.states.values()
        held = sorted(each.ledger for each in states if each.last != NO_ENTRY)
        return join_ranges((each, each) for each in held[bisect_left(held, first) :])

    async def outlines(self, ledgers: Sequence[LedgerId]) -> list[Outline | None]:
        """See `Bookie.outlines`."""
        self._engine.check_alive()
        check_outlines(ledgers)
        return await self._storage.lists.outlines(ledgers)

    def lac(self, ledger: LedgerId) -> EntryId:
        """Return the highest LAC in anything held of a ledger, read from headers unverified."""
        state = self._known(ledger)
        return NO_ENTRY if state is None else state.confirmed

    async def force(self, ledger: LedgerId) -> None:
        """Return when everything accepted before is durable. It vouches for no entry: `sync` does.

        Raises `BookieUnavailableError` and `BookieBusyError`.
        """
        self._engine.check_moving()
        await self._engine.settle()

    def knows(self, ledger: LedgerId) -> bool:
        """Whether this bookie has something of a ledger, or had and dropped it."""
        return self._known(ledger) is not None or self._storage.retired.is_dropped(ledger)

    def lets_read(self, ledger: LedgerId, key: bytes) -> bool:
        """Whether a peer with a key, empty for none, may have entries of a ledger."""
        state = self._storage.states.get(ledger)
        return state is None or state.lets_read(key)

    def highest(self) -> LedgerId:
        """Return the highest ledger that this bookie has entries of or dropped, −1 for
        none. A ledger without entries proves nothing: older programs let strangers begin one.
        """
        states = self._storage.states.values()
        held = (each.ledger for each in states if each.last != NO_ENTRY)
        return max(max(held, default=-1), self._storage.retired.highest)

    def doubts(self, ledger: LedgerId) -> bool:
        """Whether this bookie may have lost something of a ledger that it has not got back."""
        return self._storage.is_doubtful(ledger)

    def collector(self, deletions: Deletions, superfluous: Superfluous | None = None) -> Collector:
        """Return the collector of this bookie, to be started and closed by the caller. Without
        `superfluous` it drops deleted ledgers only.
        """
        return self._engine.collector(deletions, superfluous)

    def mender(
        self, copies: OpenCopies, orders: Orders | None = None, spans: Spans = NO_SPANS
    ) -> Mender:
        """Return the mender of this bookie, to be started and closed by the caller."""
        return self._engine.mender(copies, orders, spans)

    def scrubber(self, copies: OpenCopies | None = None) -> Scrubber:
        """Return the scrubber of this bookie, to be started and closed by the caller. Without
        `copies` it reports damage and leaves it.
        """
        return self._engine.scrubber(copies)

    async def info(self) -> BookieInfo:
        """See `Bookie.info`. Answers even when the disk hangs: the space is as it was seen last."""
        self._engine.check_alive()
        space = self._engine.upkeep.space
        states = self._storage.states.values()
        ledgers = sum(state.is_known for state in states)
        return BookieInfo(
            *(self.bookie, self.is_writable, space.free_bytes, space.total_bytes, ledgers),
            in_limbo=sum(state.in_limbo for state in states),
            counters=self._engine.counters(),
            highest=self.highest(),
        )

    async def close(self) -> None:
        """Finish accepted work, flush, and stop. A disk that hangs is given up on in the end."""
        await self._engine.close()

    async def abort(self) -> None:
        """Stop as a crash would; changes that are not durable are lost."""
        await self._engine.abort()
