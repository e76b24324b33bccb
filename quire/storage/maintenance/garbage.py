"""Garbage collection: ledgers that were deleted are dropped, and their space is given back.

A bookie is not told that a ledger was deleted. Now and then it asks which of its ledgers no longer
exist, through the narrow port `Deletions`. A ledger is dropped only when it was found deleted in
two rounds, one after the other; after a round without an answer of the store this begins anew. Then
copies that are superfluous (disowning.py) are dropped, and compaction runs until there is nothing
to do: *minor* every round, *major* (which also rewrites
files with a little garbage) now and then, or at once when the disk is nearly full.

On a full disk both borrow the bookie's reserve (reserve.py) if that will free more than it takes:
the ids of dropped ledgers and the checkpoint must be durable before a file goes. Otherwise nothing
is dropped, and the next round tries again.

Owns one task. Not here: the proof of a deletion (deletions.py), superfluous copies (disowning.py),
how files are rewritten (compaction.py).
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from quire.aio.tasks import Tasks
from quire.entry import BookieId, LedgerId
from quire.errors import QuireError
from quire.observer import SILENT, Observer
from quire.storage.disk.port import Disk
from quire.storage.entries.ledger_storage import LedgerStorage
from quire.storage.entries.reserve import Reserve
from quire.storage.journal.options import StorageOptions
from quire.storage.maintenance.compaction import Compactor
from quire.storage.maintenance.disowning import Disowner, Superfluous

T = TypeVar("T")

_log = logging.getLogger(__name__)

STEPS_MAX: Final = 1000
"""Compactions of one round; the rest waits for the next."""


class Deletions(Protocol):
    """The collector's questions to the cluster."""

    async def deleted(self, ledgers: Sequence[LedgerId]) -> list[LedgerId]:
        """Return which of some ledgers provably exist no more. Raises `QuireError` when that
        cannot be said.
        """
        ...


@dataclass(slots=True)
class CollectionCounts:
    """The collector's counters since the start."""

    rounds: int = 0
    rounds_failed: int = 0
    ledgers_dropped: int = 0
    rounds_without_space: int = 0
    """Rounds that could not make the ids of ledgers to drop durable on a full disk."""


class Collector:
    """See the module. `start` and `close` belong to the owner."""

    def __init__(
        self,
        bookie: BookieId,
        disk: Disk,
        storage: LedgerStorage,
        compactor: Compactor,
        reserve: Reserve,
        deletions: Deletions,
        options: StorageOptions,
        on_fatal: Callable[[BaseException], None],
        observer: Observer = SILENT,
        superfluous: Superfluous | None = None,
    ) -> None:
        self._bookie = bookie
        self._observer = observer
        self._disk = disk
        self._storage = storage
        self._compactor = compactor
        self._reserve = reserve
        self._deletions = deletions
        self._options = options
        self._on_fatal = on_fatal
        self._suspects: list[LedgerId] = []
        self._major_at = 0.0
        self._tasks = Tasks(on_fatal)
        self.counts: Final = CollectionCounts()
        self.disowner: Disowner | None = None
        """What looks for superfluous copies; None without a way to ask."""
        if superfluous is not None:
            seconds = options.disown_seconds
            self.disowner = Disowner(bookie, storage, superfluous, seconds, self._disown)

    def start(self) -> None:
        self._tasks.start(self._run(), f"garbage collection of {self._bookie}")

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self._major_at = loop.time() + self._options.major_seconds
        pause = min(self._options.first_collect_seconds, self._options.collect_seconds)
        while True:
            await self._pause(pause)
            pause = self._options.collect_seconds
            is_major = loop.time() >= self._major_at or await self._is_nearly_full()
            await self.round(is_major=is_major)
            if is_major:
                self._major_at = loop.time() + self._options.major_seconds

    async def _pause(self, seconds: float) -> None:
        """Join files until the next round; a nearly full disk is not made to wait long."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (rest := end - loop.time()) > 0:
            await asyncio.sleep(min(self._options.space_check_seconds, rest))
            if await self._is_nearly_full():
                return
            await self._compact(partial(self._compactor.join, self._is_wanted))
            await self._restore()

    async def _is_wanted(self, files: Sequence[int]) -> bool:
        """Whether at least half of the entries in some files are of ledgers that may exist.

        The others are dropped in one of the next rounds: a copy of them would be written in vain.
        """
        shelf = self._storage.shelf
        members = shelf.members(files)
        try:
            gone = set(await self._deletions.deleted(members))
        except QuireError:
            return True
        sizes = {True: 0, False: 0}
        for ledger in members:
            parts = shelf.parts_in(ledger, files)
            sizes[ledger in gone] += sum(part.bytes for part in parts)
        return sizes[False] >= sizes[True]

    async def _is_nearly_full(self) -> bool:
        space = await self._disk.space()
        return space.free_bytes < self._options.high_mark(space.total_bytes)

    async def round(self, *, is_major: bool = False) -> None:
        """Look for deleted ledgers once, then compact. Raises OSError other than ENOSPC."""
        self.counts.rounds += 1
        await self._drop_deleted()
        if self.disowner is not None:
            await self.disowner.round()
        options = self._options
        live_share = options.major_live_share if is_major else options.minor_live_share
        step = partial(self._compactor.step, live_share)
        for _ in range(STEPS_MAX):
            if not await self._compact(partial(self._borrowing, step, ())):
                break
        for _ in range(STEPS_MAX):
            if not await self._compact(partial(self._compactor.join, self._is_wanted)):
                break
        await self._restore()
        _log.info("bookie %s collected: %s %s", self._bookie, self.counts, self._compactor.counts)

    async def _compact(self, step: Callable[[], Awaitable[bool]]) -> bool:
        """Do one compaction; tell whether there is more to do, and space for it."""
        try:
            return await step()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            _log.warning("bookie %s has no room to compact", self._bookie)
            return False

    async def _borrowing(self, work: Callable[[], Awaitable[T]], dropped: Container[LedgerId]) -> T:
        """Do work, in the space of the reserve if needed and if that frees more than it takes."""
        try:
            return await work()
        except OSError as error:
            if error.errno != errno.ENOSPC or not self._frees(dropped):
                raise
        return await self._reserve.lend(work)

    def _frees(self, dropped: Container[LedgerId]) -> bool:
        """Whether compaction could free twice the reserve without some ledgers, by copies that fit
        into a quarter of it.
        """
        reserve = self._options.reserve_bytes
        uses = self._storage.shelf.uses(dropped)
        small = [use for use in uses if use.live_bytes <= reserve // 4]
        return sum(use.bytes - use.live_bytes for use in small) >= 2 * reserve

    async def _restore(self) -> None:
        """Make the reserve again if a round has borrowed it, and there is space."""
        if self._reserve.is_whole:
            return
        try:
            await self._reserve.restore()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            _log.warning(
                "bookie %s has no space to make its reserve again, and takes no new entries: free "
                "space on its disk",
                self._bookie,
            )

    async def _drop_deleted(self) -> None:
        # Not those that are merely waited for: their ids may be drawn, and their records to come.
        states = self._storage.states.values()
        held = sorted(each.ledger for each in states if each.is_known or each.in_limbo)
        try:
            deleted = await self._deletions.deleted(held) if held else []
        except QuireError as error:
            self.counts.rounds_failed += 1
            self._suspects = []
            _log.warning("bookie %s cannot tell what was deleted: %s", self._bookie, error)
            return
        certain = sorted(set(deleted) & set(self._suspects))
        self._suspects = deleted
        if certain and await self._retire(certain):
            self._suspects = sorted(set(deleted) - set(certain))
            self.counts.ledgers_dropped += len(certain)

    async def _retire(self, ledgers: Sequence[LedgerId]) -> bool:
        """Drop ledgers and keep their ids; tell whether there was space for the ids."""
        try:
            await self._borrowing(partial(self._storage.retire, ledgers), set(ledgers))
        except OSError as error:
            self._note_no_space(error, ledgers)
            return False
        for ledger in ledgers:
            self._observer.retired(ledger)
        return True

    async def _disown(
        self, ledgers: Sequence[LedgerId], doubted: set[LedgerId]
    ) -> Sequence[LedgerId]:
        """Drop superfluous ledgers and keep their ids; return those dropped."""
        disown = partial(self._storage.disown, ledgers, doubted)
        try:
            gone = await self._borrowing(disown, set(ledgers))
        except OSError as error:
            self._note_no_space(error, ledgers)
            return []
        for ledger in gone:
            self._observer.disowned(ledger)
        return gone

    def _note_no_space(self, error: OSError, ledgers: Sequence[LedgerId]) -> None:
        """Note that nothing was dropped. Raises errors other than ENOSPC."""
        if error.errno != errno.ENOSPC:
            raise error
        self.counts.rounds_failed += 1
        self.counts.rounds_without_space += 1
        _log.warning(
            "bookie %s has no space to keep the ids of %d ledgers to drop, and drops none: "
            "free %d bytes on its disk; the next round tries again",
            self._bookie,
            len(ledgers),
            self._storage.retired_bytes(len(ledgers)),
        )

    async def close(self) -> None:
        """Stop at once; what compaction was writing is removed at the next start."""
        await self._tasks.stop()
