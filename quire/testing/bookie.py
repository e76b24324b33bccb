"""The reference bookie: the port's law in as few lines as possible, held in memory.

Protocol tests run against it, and the contract suite compares other bookies with it. Durability is
immediate. `before` is called at the start of every request and may raise or wait: tests inject
faults with it.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from quire.aio.timing import time_limit
from quire.bookie import READ_BYTES_MAX, BookieInfo, LedgerTail, Stride, check_range
from quire.entry import (
    HEADER,
    LAC_HEADER,
    NO_ENTRY,
    OPEN_KEY,
    BookieId,
    EntryId,
    LedgerId,
    is_sealed_again,
)
from quire.errors import (
    CorruptEntryError,
    InvalidRequestError,
    LedgerDisownedError,
    LedgerFencedError,
    LedgerRetiredError,
    NoSuchEntryError,
    NoSuchLedgerError,
    ReadOnlyBookieError,
    UnauthorizedError,
)
from quire.outline import Outline, check_outlines, joined
from quire.run import pack_run, scan_run


@dataclass
class _Ledger:
    key: bytes | None = None
    fenced: bool = False
    frames: dict[EntryId, bytes] = field(default_factory=dict)
    lac_packet: bytes | None = None
    packet_lac: EntryId = NO_ENTRY
    hint: EntryId = NO_ENTRY
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    waits: int = 0
    """Calls of `wait_tail` under way. A ledger that is only waited for is not known."""
    deferred: dict[EntryId, bytes] = field(default_factory=dict)
    """Accepted, not durable: invisible, and lost by `crash`."""

    def store(self, frames: dict[EntryId, bytes]) -> None:
        self.frames.update(frames)
        for frame in frames.values():
            self.hint = max(self.hint, HEADER.unpack_from(frame)[2])
        self.wake()

    def settle(self) -> None:
        deferred, self.deferred = self.deferred, {}
        if deferred:
            self.store(deferred)

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


async def _nothing(method: str, ledger: LedgerId) -> None:
    return None


DISOWNED = "another bookie holds its entries now"
OTHER_BYTES = "it is held with other bytes, and an ordinary add never replaces an entry"
OTHER_PAYLOAD = "it is held with another payload, and a recovery never changes a payload"


class MemoryBookie:
    """A bookie without disk or network."""

    def __init__(self, bookie: BookieId = "memory") -> None:
        self.bookie = bookie
        self.writable = True
        self.ranges_max = 1 << 20
        """Most ranges in a list of entries."""
        self.before: Callable[[str, LedgerId], Awaitable[None]] = _nothing
        self.ledgers: dict[LedgerId, _Ledger] = {}
        self.retired: set[LedgerId] = set()
        self.disowned: set[LedgerId] = set()

    def look(self, ledger: LedgerId) -> _Ledger:
        """Return the state of a ledger, for tests. A look does not make a ledger known."""
        return self.ledgers.get(ledger, _Ledger())

    def retire(self, ledger: LedgerId) -> None:
        """Drop a ledger that was deleted, and keep its id."""
        self.retired.add(ledger)
        state = self.ledgers.pop(ledger, None)
        if state is not None:
            state.fenced = True
            state.wake()

    def disown(self, ledger: LedgerId) -> None:
        """Drop a ledger whose entries another bookie holds now. Its fence stays."""
        self.disowned.add(ledger)
        state = self.ledgers.pop(ledger, None)
        if state is not None:
            state.fenced = True
            state.wake()

    def _check_kept(self, ledger: LedgerId) -> None:
        if ledger in self.retired:
            raise LedgerRetiredError(ledger)
        if ledger in self.disowned:
            raise LedgerDisownedError(ledger, NO_ENTRY, DISOWNED)

    def _check_writer(self, ledger: LedgerId) -> None:
        if ledger in self.retired or ledger in self.disowned:
            raise LedgerFencedError(ledger)

    def _authorize(self, ledger: LedgerId, key: bytes) -> _Ledger:
        state = self.ledgers.setdefault(ledger, _Ledger())
        if state.key is None:
            state.key = key
        if not hmac.compare_digest(state.key, key):
            raise UnauthorizedError(ledger)
        return state

    def crash(self) -> None:
        """Lose the entries that are not durable."""
        for state in self.ledgers.values():
            state.deferred.clear()

    def _fence(self, ledger: LedgerId, key: bytes) -> None:
        self._check_kept(ledger)
        state = self._authorize(ledger, key)
        state.settle()
        state.fenced = True
        state.wake()

    async def add(
        self,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        *,
        recovery: bool = False,
        deferred: bool = False,
    ) -> None:
        await self.before("add", ledger)
        scanned = scan_run(run)
        if scanned.ledger != ledger:
            raise InvalidRequestError(f"run is of ledger {scanned.ledger}, not {ledger}")
        if not self.writable and not recovery:
            raise ReadOnlyBookieError(self.bookie, "set read-only")
        self._check_kept(ledger) if recovery else self._check_writer(ledger)
        state = self._authorize(ledger, key)
        if state.fenced and not recovery:
            raise LedgerFencedError(ledger)
        frames = {at.entry: run[at.offset : at.offset + at.size] for at in scanned.frames}
        for entry, frame in frames.items():
            held = state.deferred.get(entry, state.frames.get(entry, frame))
            if not recovery and held != frame:
                raise CorruptEntryError(ledger, entry, OTHER_BYTES)
            if recovery and key == OPEN_KEY and not is_sealed_again(ledger, entry, held, frame):
                raise CorruptEntryError(ledger, entry, OTHER_PAYLOAD)
        if deferred:
            state.deferred.update(frames)
        else:
            state.settle()
            state.store(frames)

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
        await self.before("read", ledger)
        check_range(first, last)
        if fence_key is not None:
            self._fence(ledger, fence_key)
        self._check_kept(ledger)
        if ledger not in self.ledgers or self.ledgers[ledger].key is None:
            raise NoSuchLedgerError(ledger)
        frames = self.ledgers[ledger].frames
        found: list[bytes] = []
        size = 0
        for entry in sorted(entry for entry in frames if first <= entry <= last):
            if found and size + len(frames[entry]) > bytes_max:
                break
            found.append(frames[entry])
            size += len(frames[entry])
        if not found:
            raise NoSuchEntryError(ledger, first, last)
        return pack_run(found)

    async def read_tail(self, ledger: LedgerId, *, fence_key: bytes | None = None) -> LedgerTail:
        await self.before("read_tail", ledger)
        if fence_key is not None:
            self._fence(ledger, fence_key)
        self._check_kept(ledger)
        return self._tail(ledger)

    def _tail(self, ledger: LedgerId) -> LedgerTail:
        if ledger in self.retired or ledger in self.disowned:
            return LedgerTail(fenced=True)
        if ledger not in self.ledgers:
            return LedgerTail()
        state = self.ledgers[ledger]
        frame = state.frames[max(state.frames)] if state.frames else None
        return LedgerTail(frame, state.lac_packet, max(state.hint, state.packet_lac), state.fenced)

    async def wait_tail(self, ledger: LedgerId, above: EntryId, timeout: float) -> LedgerTail:
        await self.before("wait_tail", ledger)
        await self._change(ledger, above, timeout)
        return self._tail(ledger)

    async def wait_change(self, ledger: LedgerId, above: EntryId, timeout: float) -> None:
        await self.before("wait_change", ledger)
        await self._change(ledger, above, timeout)

    async def _change(self, ledger: LedgerId, above: EntryId, timeout: float) -> None:
        if ledger in self.retired or ledger in self.disowned:
            return
        state = self.ledgers.setdefault(ledger, _Ledger())
        state.waits += 1
        try:
            async with time_limit(timeout):
                while not state.fenced and max(state.hint, state.packet_lac) <= above:
                    await state.changed.wait()
        except TimeoutError:
            pass
        finally:
            state.waits -= 1
            if state.key is None and not state.waits and self.ledgers.get(ledger) is state:
                del self.ledgers[ledger]

    async def write_lac(self, ledger: LedgerId, key: bytes, packet: bytes) -> None:
        await self.before("write_lac", ledger)
        if len(packet) < LAC_HEADER.size or LAC_HEADER.unpack_from(packet)[0] != ledger:
            raise InvalidRequestError(f"not a LAC packet of ledger {ledger}")
        self._check_writer(ledger)
        state = self._authorize(ledger, key)
        if state.fenced:
            raise LedgerFencedError(ledger)
        _, lac = LAC_HEADER.unpack_from(packet)
        if lac > state.packet_lac:
            state.lac_packet, state.packet_lac = packet, lac
            state.wake()

    async def sync(
        self, ledger: LedgerId, key: bytes, first: EntryId, last: EntryId
    ) -> list[tuple[EntryId, EntryId]]:
        await self.before("sync", ledger)
        check_range(first, last)
        self._check_writer(ledger)
        if ledger not in self.ledgers or self.ledgers[ledger].key is None:
            return []
        state = self._authorize(ledger, key)
        if state.fenced:
            raise LedgerFencedError(ledger)
        state.settle()
        held = [(max(low, first), min(high, last)) for low, high in self._ranges(ledger)]
        return [(low, high) for low, high in held if low <= high]

    async def list_entries(
        self, ledger: LedgerId, first: EntryId = 0
    ) -> list[tuple[EntryId, EntryId]]:
        await self.before("list_entries", ledger)
        found = [(max(low, first), high) for low, high in self._ranges(ledger) if high >= first]
        return found[: self.ranges_max]

    def _ranges(self, ledger: LedgerId) -> list[tuple[EntryId, EntryId]]:
        return _ranges_of(sorted(self.ledgers[ledger].frames) if ledger in self.ledgers else ())

    async def list_ledgers(self, first: LedgerId = 0) -> list[tuple[LedgerId, LedgerId]]:
        await self.before("list_ledgers", first)
        held = [each for each, state in self.ledgers.items() if state.frames and each >= first]
        return _ranges_of(sorted(held))[: self.ranges_max]

    async def outlines(self, ledgers: Sequence[LedgerId]) -> list[Outline | None]:
        await self.before("outlines", min(ledgers, default=0))
        check_outlines(ledgers)
        return [
            joined(Outline(low, high, high - low + 1) for low, high in self._ranges(each))
            for each in ledgers
        ]

    async def info(self) -> BookieInfo:
        held = [each for each, state in self.ledgers.items() if state.frames]
        highest = max([*held, *self.retired, *self.disowned], default=-1)
        known = len(self.ledgers)
        return BookieInfo(self.bookie, self.writable, 1 << 40, 1 << 40, known, highest=highest)


def _ranges_of(ids: Iterable[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for each in ids:
        if ranges and ranges[-1][1] == each - 1:
            ranges[-1] = (ranges[-1][0], each)
        else:
            ranges.append((each, each))
    return ranges
