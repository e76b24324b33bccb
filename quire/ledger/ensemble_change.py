"""Mending an ensemble: one task of the writer that runs while a sender is not up.

A change is: freeze LAC → draw replacements → compare-and-set the fragment at LAC + 1 → send to the
replacements → thaw. Bookies that fail meanwhile are replaced by another round before the thaw. LAC
cannot move in between, so no entry is confirmed by an ensemble that metadata does not name.

With `delay_ensemble_change` nothing is replaced as long as the others suffice.

A position without a spare stays down: the others go on, and it is probed and offered
a spare again after a pause that grows with its failures. The same when the store provably changed
nothing. A change with an unknown outcome keeps LAC frozen until the outcome is known.

Not here: the meaning of an ending for callers; the task only reports it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

from quire.aio.tasks import Tasks
from quire.aio.timing import time_limit
from quire.entry import EntryId
from quire.errors import NotEnoughBookiesError, QuireError, StoreUnavailableError
from quire.ledger.ensemble import BACKOFF, Ensemble
from quire.ledger.ledger_record import LedgerRecord
from quire.ledger.metadata import Fragment
from quire.ledger.placement import replace
from quire.ledger.replica_sender import SenderState
from quire.ledger.roster import Bookies, seated
from quire.metrics.meter import SILENT_METER, ClientMeter
from quire.observer import SILENT, Observer


class EnsembleChange:
    """Replaces the bookies of senders that are down, one change at a time."""

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
        observer: Observer = SILENT,
        meter: ClientMeter = SILENT_METER,
    ) -> None:
        """`changed` is called after each attempt, `ended` when this writer's time is over;
        `observer` is told when LAC stands still, and when it may move again; `meter` is told why a
        bookie was replaced.
        """
        self._meter = meter
        self._observer = observer
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
        """See to the senders that are not up, now or after the change under way.

        LAC is frozen at once: an entry not yet confirmed then is sent to the replacement too.
        """
        self._freeze()
        self._failed.set()
        if self._task is None or self._task.done():
            self._task = self._tasks.start(self._mend(), "ensemble change")

    async def _mend(self) -> None:
        ensemble, loop = self._ensemble, asyncio.get_running_loop()
        try:
            while ensemble.ailing or ensemble.window.is_frozen:
                self._failed.clear()
                await self._change()
                ensemble.revive(loop.time())
                self._changed()
                await self._pause()
        except Exception as error:
            self._ended(error)

    async def _change(self) -> None:
        """Replace failed positions as far as spares exist, in rounds while bookies fail."""
        self.obstacle = None
        try:
            while self._ensemble.ailing and not self._ensemble.can_wait:
                fragment = self._draw()
                await self._record.begin_fragment(fragment)
                for reason in self._ensemble.install(fragment):
                    self._meter.replaced(reason)
        except (NotEnoughBookiesError, StoreUnavailableError) as error:
            self.obstacle = error
        if self._ensemble.window.is_frozen:
            self._thaw()

    def _draw(self) -> Fragment:
        """Return the fragment that gives positions to spares; LAC is frozen then.

        Raises `NotEnoughBookiesError` without a spare that the ledger's placement allows.
        """
        now = asyncio.get_running_loop().time()
        suspects = self._ensemble.suspects
        spares = [
            each for each in self._bookies.candidates() if suspects.get(each.bookie, now) <= now
        ]
        failed = [sender.position for sender in self._ensemble.ailing]
        metadata = self._record.metadata
        ensemble = replace(
            self._rng,
            seated(metadata.last_fragment, self._bookies),
            failed,
            spares,
            metadata.replication,
            metadata.placement,
            self._bookies.places(),
        )
        return Fragment.placed(self._freeze(), ensemble, metadata.placement)

    def _freeze(self) -> EntryId:
        window = self._ensemble.window
        if window.is_frozen:
            return window.lac + 1
        first = window.freeze()
        self._observer.frozen(self._ensemble.ledger, first)
        return first

    def _thaw(self) -> None:
        ensemble = self._ensemble
        bookies = [sender.bookie for sender in ensemble.senders]
        self._observer.thawed(ensemble.ledger, ensemble.window.first, bookies)
        ensemble.window.thaw()

    async def _pause(self) -> None:
        """Wait until a sender may be probed or fails, or a spare is looked for."""
        ailing = self._ensemble.ailing
        if not ailing:
            return
        now = asyncio.get_running_loop().time()
        due = [sender.retry_at for sender in ailing if sender.state is SenderState.DOWN]
        with suppress(TimeoutError):
            async with time_limit(min([*due, now + BACKOFF.last]) - now):
                await self._failed.wait()
