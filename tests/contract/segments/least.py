"""A segment store that does as little as the port allows: lists in memory, and no ledgers.

It stands for an engine of another system. Logs run on it (tests/log/test_other_engines.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from quire.aio.handle import Handle
from quire.entry import Entry, EntryId, LedgerId
from quire.errors import (
    HandleClosedError,
    InvalidRequestError,
    LedgerClosedError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnauthorizedError,
    UnsupportedError,
)
from quire.log.segment_store.port import (
    Along,
    SegmentCapability,
    SegmentFacts,
    SegmentOptions,
    SegmentSink,
    StirredWatch,
)
from quire.metastore.changes import Change

SYSTEM = "lists in memory"


@dataclass
class Shelf:
    """One segment: its entries, those in flight, and whether its end is decided."""

    ledger: LedgerId
    password: bytes
    entries: list[bytes] = field(default_factory=list)
    flying: list[tuple[bytes, asyncio.Future[EntryId]]] = field(default_factory=list)
    is_sealed: bool = False
    is_deleted: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def facts(self) -> SegmentFacts:
        end = (len(self.entries) - 1, sum(map(len, self.entries))) if self.is_sealed else ()
        return SegmentFacts(self.ledger, {}, b"", *end)

    def land(self) -> None:
        """Answer everything in flight, in order."""
        for payload, future in self.flying:
            self.entries.append(payload)
            if not future.done():
                future.set_result(len(self.entries) - 1)
        self.flying.clear()
        self.tell()

    def seal(self) -> None:
        """Decide the end: what is in flight is not in it."""
        for _, future in self.flying:
            if not future.done():
                future.set_exception(LedgerFencedError(self.ledger))
        self.flying.clear()
        self.is_sealed = True
        self.tell()

    def tell(self) -> None:
        """Wake all that wait for news."""
        self.news.set()
        self.news = asyncio.Event()


class ShelfSink:
    """Port `SegmentSink`: answers in the next turn of the loop."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.last_pushed = -1
        self._is_closed = False

    @property
    def ledger(self) -> LedgerId:
        return self.shelf.ledger

    @property
    def facts(self) -> SegmentFacts:
        return self.shelf.facts

    async def submit(self, payload: bytes) -> asyncio.Future[EntryId]:
        self._check()
        if self._is_closed:
            raise HandleClosedError(f"sink of segment {self.ledger}")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[EntryId] = loop.create_future()
        self.shelf.flying.append((payload, future))
        self.last_pushed += 1
        loop.call_soon(self.shelf.land)
        return future

    async def append(self, payload: bytes) -> EntryId:
        return await (await self.submit(payload))

    def view(self) -> None:
        return None

    def watch(self) -> None:
        return

    async def close(self) -> None:
        if self._is_closed:
            return
        self._check()
        self._is_closed = True
        self.shelf.land()
        self.shelf.is_sealed = True
        self.shelf.tell()

    def abandon(self) -> None:
        self._is_closed = True

    def guard(self) -> Sequence[Change]:
        raise UnsupportedError(SYSTEM, SegmentCapability.TRANSACTIONS.value)

    def _check(self) -> None:
        if self.shelf.is_deleted:
            raise NoSuchLedgerError(self.ledger)
        if self.shelf.is_sealed and not self._is_closed:
            raise LedgerClosedError(self.ledger)


class ShelfSource(Handle):
    """Port `SegmentSource`."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._is_open = True

    @property
    def ledger(self) -> LedgerId:
        return self._shelf.ledger

    @property
    def facts(self) -> SegmentFacts:
        return self._shelf.facts

    @property
    def is_closed(self) -> bool:
        return self._shelf.is_sealed

    async def last_confirmed(self) -> EntryId:
        self._check()
        return len(self._shelf.entries) - 1

    last_acknowledged = last_confirmed

    async def read_entry(self, entry: EntryId) -> Entry:
        self._check()
        if entry >= len(self._shelf.entries):
            if self.is_closed:
                raise NoSuchEntryError(self.ledger, entry)
            raise InvalidRequestError(f"entry {entry} is past the last one")
        entries = self._shelf.entries
        length = sum(map(len, entries[: entry + 1]))
        return Entry(self.ledger, entry, entry - 1, length, entries[entry])

    async def read_head(self, entry: EntryId) -> bytes:
        return (await self.read_entry(entry)).payload

    async def read_runs(
        self, first: EntryId, last: EntryId | None = None
    ) -> AsyncGenerator[list[Entry], None]:
        self._check()
        end = len(self._shelf.entries) - 1 if last is None else last
        for entry in range(first, end + 1):
            yield [await self.read_entry(entry)]

    async def follow_runs(self, first: EntryId) -> AsyncGenerator[list[Entry], None]:
        while True:
            self._check()
            news = self._shelf.news
            if first < len(self._shelf.entries):
                yield [await self.read_entry(first)]
                first += 1
            elif self.is_closed:
                if first > len(self._shelf.entries):
                    raise NoSuchEntryError(self.ledger, first)
                return
            else:
                await news.wait()

    def confirm(self, last: EntryId) -> None:
        assert last < len(self._shelf.entries)

    async def wait_closed(self) -> None:
        while not self.is_closed:
            await self._shelf.news.wait()

    def watch(self) -> StirredWatch:
        return StirredWatch()

    async def close(self) -> None:
        self._is_open = False

    def _check(self) -> None:
        if not self._is_open:
            raise HandleClosedError(f"source of segment {self.ledger}")
        if self._shelf.is_deleted:
            raise NoSuchLedgerError(self.ledger)


class LeastSegments:
    """Port `SegmentStore`. All clients of one engine share `shelves`."""

    capabilities: frozenset[SegmentCapability] = frozenset()

    def __init__(self, shelves: dict[LedgerId, Shelf]) -> None:
        self.shelves = shelves

    async def create(self, wanted: SegmentOptions, along: Along | None = None) -> ShelfSink:
        _refuse(SegmentCapability.TRANSACTIONS, along)
        _refuse(SegmentCapability.LABELS, wanted.labels)
        _refuse(SegmentCapability.POLICY, wanted.placement)
        ledger = len(self.shelves) + 100
        shelf = self.shelves[ledger] = Shelf(ledger, wanted.password)
        return ShelfSink(shelf)

    async def check_room(self, wanted: SegmentOptions) -> None:
        return None

    def rest(self, sink: SegmentSink) -> None:
        return None

    def fits(self, sink: SegmentSink, wanted: SegmentOptions) -> bool:
        return not self.shelves[sink.ledger].is_sealed

    async def open(self, ledger: LedgerId, *, password: bytes = b"") -> ShelfSource:
        return ShelfSource(self._find(ledger, password))

    async def seal(self, ledger: LedgerId, *, password: bytes = b"") -> ShelfSource:
        shelf = self._find(ledger, password)
        if not shelf.is_sealed:
            shelf.seal()
        return ShelfSource(shelf)

    async def delete(self, ledger: LedgerId, along: Sequence[Change] = ()) -> None:
        _refuse(SegmentCapability.TRANSACTIONS, along)
        shelf = self.shelves.get(ledger)
        if shelf is None or shelf.is_deleted:
            raise NoSuchLedgerError(ledger)
        shelf.is_deleted = True
        shelf.tell()

    def _find(self, ledger: LedgerId, password: bytes) -> Shelf:
        shelf = self.shelves.get(ledger)
        if shelf is None or shelf.is_deleted:
            raise NoSuchLedgerError(ledger)
        if shelf.password != password:
            raise UnauthorizedError(ledger)
        return shelf


def _refuse(capability: SegmentCapability, wanted: object) -> None:
    if wanted:
        raise UnsupportedError(SYSTEM, capability.value)
