"""Mending an ensemble: one task of the writer that runs while a position is down.

A change is: freeze LAC → draw replacements → compare-and-set the fragment at LAC + 1 → send to the
replacements → thaw. Bookies that fail meanwhile are replaced by another round before the thaw. LAC
cannot move in between, so no entry is confirmed by an ensemble that metadata does not name.

A position for which there is no spare stays down: the others go on, and it is probed and offered
a spare again after a pause that grows with its failures. The same when the store provably changed
nothing. A change whose outcome is unknown keeps LAC frozen until it is known.

Not here: what an ending means to callers; the task only reports it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from quire.entry import EntryId
from quire.errors import NotEnoughBookiesError, QuireError, StoreUnavailableError
from quire.ledger.ensemble import Ensemble
from quire.ledger.ledger_record import LedgerRecord
from quire.ledger.metadata import Fragment
from quire.ledger.placement import replace
from quire.ledger.roster import Bookies
from quire.ledger.tasks import Tasks


class EnsembleChange:
    """Replaces the bookies of lanes that are down, one change at a time."""

    def __init__(
        self,
        ensemble: Ensemble,
        record: LedgerRecord,
        bookies: Bookies,
        rng: random.Random,
        tasks: Tasks,
        *,
        changed: Callable[[], None],
        ended: Callable[[Exception], None],
    ) -> None:
        """`changed` is called after each thaw, `ended` when this writer's time is over."""
        self._ensemble = ensemble
        self._record = record
        self._bookies = bookies
        self._rng = rng
        self._tasks = tasks
        self._changed = changed
        self._ended = ended
        self._task: asyncio.Task[None] | None = None
        self._failed = asyncio.Event()
        self.obstacle: QuireError | None = None
        """Why the last change left a position down."""

    def start(self) -> None:
        """See to the lanes that are down, now or after the change under way.

        LAC is frozen at once: an entry not yet confirmed then is sent to the replacement too.
        """
        self._failed.set()
        self._freeze()
        if self._task is None or self._task.done():
            self._task = self._tasks.start(self._mend(), "ensemble change")

    async def _mend(self) -> None:
        try:
            while self._ensemble.down:
                self._failed.clear()
                await self._change()
                await self._pause()
        except Exception as error:
            self._ended(error)

    async def _change(self) -> None:
        """Replace what can be replaced, in as many rounds as bookies fail meanwhile."""
        first = self._freeze()
        self.obstacle = None
        try:
            while self._ensemble.down:
                fragment = self._draw(first)
                await self._record.begin_fragment(fragment)
                self._ensemble.install(fragment)
        except (NotEnoughBookiesError, StoreUnavailableError) as error:
            self.obstacle = error
        self._ensemble.window.thaw()
        self._changed()

    def _freeze(self) -> EntryId:
        window = self._ensemble.window
        return window.lac + 1 if window.is_frozen else window.freeze()

    def _draw(self, first: EntryId) -> Fragment:
        now = asyncio.get_running_loop().time()
        suspects = self._ensemble.suspects
        spares = [each for each in self._bookies.writable() if suspects.get(each, now) <= now]
        failed = [lane.position for lane in self._ensemble.down]
        current = [lane.bookie for lane in self._ensemble.lanes]
        return Fragment(first, replace(self._rng, current, failed, spares))

    async def _pause(self) -> None:
        """Wait until a lane that is still down may be probed, or another one fails."""
        down = self._ensemble.down
        if not down:
            return
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(min(lane.retry_at for lane in down)):
                await self._failed.wait()
        except TimeoutError:
            pass
        self._ensemble.revive(loop.time())
        self._changed()
