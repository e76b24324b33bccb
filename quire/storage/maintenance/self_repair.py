"""Mending: fetch a bookie's lost entries from the others, ledger by ledger.

A ledger in limbo (salvage.py) leaves it when metadata says that it is closed and the bookie holds
every entry that has the bookie in its write set. Missing entries are fetched from the others and
stored as every entry is: through the journal. An open ledger stays in limbo: its writer, or a
recovery, decides where it ends, and this bookie has no part in that. The bookie fetches the missing
entries of its finished fragments all the same. The collector drops a deleted ledger.

A ledger that the bookie is asked to copy (`Orders`) is put into limbo first. So it is
fenced, and the bookie denies no entry of it. It leaves limbo as others do, after the ledger's
record names the bookie.

One task. It keeps to a rate, gives way when the disk is nearly full, and retries unreachable
entries with pauses that double. Not here: where copies come from (quire/repair).
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

from quire.aio.backoff import Backoff
from quire.aio.tasks import Tasks
from quire.aio.timing import time_limit
from quire.entry import BookieId, EntryId, LedgerId
from quire.errors import CorruptEntryError, NoSuchLedgerError, QuireError
from quire.storage.entries.ledger_storage import LedgerStorage
from quire.storage.journal.options import StorageOptions
from quire.storage.maintenance.read_repair import Patcher
from quire.storage.maintenance.replicas_port import Copies, OpenCopies, Orders, Owed
from quire.tracing.spans import BOOKIE, LEDGER, MOVE, NO_SPANS, PLACES, Spans, Values

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class MendCounts:
    """What mending did since the start."""

    rounds: int = 0
    ledgers_cleared: int = 0
    ledgers_left: int = 0
    """In limbo after the last round: not closed yet, or not to be had now."""
    ledgers_ordered: int = 0
    """Put into limbo because the bookie was asked to make copies of them."""
    ledgers_owned: int = 0
    """Had been given up as superfluous (disowning.py), and are held again."""
    places_taken: int = 0
    """Places of other bookies that ledgers' records give to this one now."""
    entries: int = 0
    bytes: int = 0
    failures: int = 0


class Mender:
    """See the module. `start` and `close` belong to the owner.

    `has_room` says whether the disk has space for more.
    """

    def __init__(
        self,
        bookie: BookieId,
        storage: LedgerStorage,
        patcher: Patcher,
        copies: OpenCopies,
        orders: Orders | None,
        options: StorageOptions,
        *,
        has_room: Callable[[], bool],
        flush: Callable[[], Awaitable[bool]],
        request_flush: Callable[[], None],
        on_fatal: Callable[[BaseException], None],
        spans: Spans = NO_SPANS,
    ) -> None:
        self._bookie = bookie
        self._spans = spans
        self._storage = storage
        self._copies = copies
        self._orders = orders
        self._options = options
        self._patcher = patcher
        self._has_room = has_room
        self._flush = flush
        self._request_flush = request_flush
        self._ordered: set[LedgerId] = set()
        """Ledgers in a limbo that may not be durable yet, nor the checks of their keys."""
        self._on_fatal = on_fatal
        self._tasks = Tasks(on_fatal)
        self.counts: Final = MendCounts()

    def start(self) -> None:
        self._tasks.start(self._run(), f"self-repair of {self._bookie}")

    async def _run(self) -> None:
        pauses = Backoff(self._options.mend_seconds, self._options.mend_seconds_max).pauses()
        while True:
            before = (self.counts.ledgers_cleared, self.counts.entries)
            await self._take_orders()
            if self._storage.limbo() and self._has_room():
                await self.round()
            if before != (self.counts.ledgers_cleared, self.counts.entries):
                pauses.reset()
            await self._wait(pauses.next())

    async def _wait(self, seconds: float) -> None:
        """Wait for the next round, or for new orders."""
        if self._orders is None:
            await asyncio.sleep(seconds)
            return
        with suppress(TimeoutError):
            async with time_limit(seconds):
                try:
                    await self._orders.changed()
                except QuireError:
                    await asyncio.sleep(seconds)

    async def _take_orders(self) -> None:
        """Put the ledgers into limbo that the bookie is asked to copy."""
        if self._orders is None or not self._has_room():
            return
        try:
            orders = await self._orders.open()
        except QuireError as error:
            _log.warning("bookie %s cannot read its orders: %s", self._bookie, error)
            return
        # An order may come back after it was taken away, while its ledger is in limbo still.
        self._ordered.update(order.ledger for order in orders)
        for order in orders:
            if self._storage.doubt(order.ledger, order.key_check):
                self.counts.ledgers_ordered += 1
                _log.info("bookie %s makes copies of ledger %d", self._bookie, order.ledger)

    async def round(self) -> None:
        """Try to make every ledger in limbo whole, once. Raises OSError."""
        ledgers = self._storage.limbo()
        _log.info("bookie %s has %d ledgers in limbo", self._bookie, len(ledgers))
        try:
            async with self._copies() as copies:
                for ledger in ledgers:
                    if self._has_room():
                        await self._try(copies, ledger)
        except QuireError as error:
            self.counts.failures += 1
            _log.warning("bookie %s cannot ask for copies: %s", self._bookie, error)
        self.counts.rounds += 1
        self.counts.ledgers_left = len(self._storage.limbo())
        if self.counts.ledgers_left < len(ledgers):
            self._request_flush()
        _log.info("bookie %s mended: %s", self._bookie, self.counts)

    async def _try(self, copies: Copies, ledger: LedgerId) -> None:
        try:
            if ledger in self._ordered:
                await self._move(copies, ledger)
            else:
                await self._make_whole(copies, ledger)
        except NoSuchLedgerError:
            self._ordered.discard(ledger)
        except QuireError as error:
            self.counts.failures += 1
            _log.warning("bookie %s lacks copies of ledger %d: %s", self._bookie, ledger, error)

    async def _move(self, copies: Copies, ledger: LedgerId) -> None:
        """Make the copies of a ledger that the bookie was asked for."""
        before = self.counts.places_taken
        about: Values = {LEDGER: ledger, BOOKIE: self._bookie}
        with self._spans.begin(MOVE, about, alone=True) as note:
            await self._make_whole(copies, ledger)
            note(PLACES, self.counts.places_taken - before)

    async def _make_whole(self, copies: Copies, ledger: LedgerId) -> None:
        """Fetch what a ledger lacks; when it is whole, take its places and end its limbo."""
        if await self._mend(copies, ledger):
            if not await self._take_places(copies, ledger):
                return
            self._storage.clear(ledger)
            self._ordered.discard(ledger)
            self.counts.ledgers_cleared += 1
            _log.info("bookie %s has all of ledger %d again", self._bookie, ledger)

    async def _take_places(self, copies: Copies, ledger: LedgerId) -> bool:
        """Enter a whole ledger's record; tell whether that was done. The fence and the check of the
        key are durable before: no process may begin the ledger anew at a bookie that it names. A
        ledger that the bookie had given up is its own again before, or the next start would drop
        copies that the record counts on.

        A place that was asked for after the orders were read is left to the next round: the check
        of the key is not kept yet.
        """
        is_ordered, is_disowned = ledger in self._ordered, self._storage.is_disowned(ledger)
        if (is_disowned or is_ordered) and not await self._flush():
            return False
        if is_disowned and not await self._own(ledger):
            return False
        if is_ordered:
            self.counts.places_taken += await copies.take_places(ledger)
        return True

    async def _own(self, ledger: LedgerId) -> bool:
        """Have a ledger again that was given up; tell whether there was space to write that."""
        try:
            await self._storage.own(ledger)
            self.counts.ledgers_owned += 1
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return False
        return True

    async def _mend(self, copies: Copies, ledger: LedgerId) -> bool:
        """Fetch the missing entries of a ledger; tell whether it is whole now.

        A ledger with another key never is: a stranger began it here, its entries may be the
        stranger's, and the stranger could read others.
        """
        owed = await copies.owed(ledger)
        if not self._storage.state(ledger).is_of(owed.key_check):
            self.counts.failures += 1
            told = "bookie %s does not count its entries of ledger %d: another program began it"
            _log.error(told, self._bookie, ledger)
            return False
        missing = self._missing(copies, ledger, owed)
        async with aclosing(self._patcher.bring(copies, ledger, owed, missing)) as bringing:
            async for count, size in bringing:
                self.counts.entries += count
                self.counts.bytes += size
        async with aclosing(self._missing(copies, ledger, owed)) as left:
            async for piece in left:
                if next(piece, None) is not None:
                    return False
        return owed.is_final

    async def _missing(
        self, copies: Copies, ledger: LedgerId, owed: Owed
    ) -> AsyncGenerator[Iterator[EntryId], None]:
        """Yield the entries owed that are not held, in pieces as large as a listing. So the ids of
        a large ledger are never all in memory together, and other tasks have their turn.
        """
        at = 0
        while at <= owed.settled_to:
            held = await self._held(copies, ledger, owed, at)
            end = held[-1][1] if held else owed.settled_to
            yield owed.missing(held, at, end)
            at = end + 1

    async def _held(
        self, copies: Copies, ledger: LedgerId, owed: Owed, first: EntryId
    ) -> list[tuple[EntryId, EntryId]]:
        """Return some ids held. Where damage hides them, it is patched first."""
        try:
            return await self._storage.lists.some(ledger, first)
        except CorruptEntryError:
            await self._patcher.patch_ledger(copies, ledger, owed)
            return await self._storage.lists.some(ledger, first)

    async def close(self) -> None:
        """Stop at once; fetched entries are kept."""
        await self._tasks.stop()
