"""The auditor: one process audits, elected among all that offer themselves.

The election is for liveness only: it keeps two auditors from reading everything twice. An auditor
that lost its office stops at once, and does no harm before it notices. A new one begins
anew: it reads all records, and no bookie counts as lost before the delay is over again.

Not here: what an auditor does (audit.py).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from quire.aio.backoff import Backoff
from quire.aio.tasks import Tasks, first_of
from quire.aio.timing import time_limit
from quire.bookie import BookieAddress
from quire.election.election import Election
from quire.errors import ConfigurationError, HandleClosedError, NoSuchNodeError, QuireError
from quire.healing.audit import Audit
from quire.ledger.links import link_bookie
from quire.ledger.roster import LinkedBookie, open_roster
from quire.ledger.stored_records import StoredRecords
from quire.metastore.layout import BOOKIES, HEALING_SWITCH
from quire.metastore.store import MetadataStore

_log = logging.getLogger(__name__)

ELECTION: Final = "quire-auditor"
"""The election's name, which `quire election` shows."""

SESSION_SECONDS: Final = 12.0
"""After so long a dead auditor has a successor. Longer than a bookie's: nothing is urgent here."""

AGAIN: Final = Backoff(first=1.0, last=30.0)
"""Pauses after a failure of the store."""


class Auditor:
    """Offers itself from `start` to `close`, and audits while it is elected."""

    def __init__(
        self,
        store: MetadataStore,
        name: str,
        *,
        delay: float,
        clock: Callable[[], float],
        rng: random.Random,
        connect: Callable[[BookieAddress], LinkedBookie] = link_bookie,
    ) -> None:
        """`name` is shown; `delay` are the seconds until a bookie that is missing counts as lost;
        `clock` is the wall clock in seconds; `connect` makes a link to a bookie without waiting.
        """
        self._connect = connect
        self._store = store
        self._name = name
        self._delay = delay
        self._clock = clock
        self._rng = rng
        self._tasks = Tasks(self._report)

    def start(self) -> None:
        """Begin."""
        self._tasks.start(self.run(), "auditor")

    async def close(self) -> None:
        """Stop at once. What bookies were asked for stays asked for."""
        await self._tasks.stop()

    async def run(self) -> None:
        """Stand for election, audit, and do so again. Returns when the store is closed or cannot
        carry sessions.
        """
        pauses = AGAIN.pauses(self._rng)
        while True:
            try:
                await self._serve()
                pauses.reset()
            except (HandleClosedError, ConfigurationError) as error:
                _log.info("auditor %s ends: %s", self._name, error)
                return
            except QuireError as error:
                _log.warning("auditor %s: %s", self._name, error)
                await asyncio.sleep(pauses.next())

    async def _serve(self) -> None:
        election = Election(
            *(self._store, ELECTION, self._name), rng=self._rng, session_timeout=SESSION_SECONDS
        )
        async with election.lead() as leadership:
            _log.info("auditor %s is elected, epoch %d", self._name, leadership.epoch)
            await first_of(self._audit(leadership.epoch), leadership.wait_lost())

    async def _audit(self, epoch: int) -> None:
        """Audit until cancelled. Raises the store's errors."""
        async with open_roster(self._store, self._connect) as roster:
            audit = Audit(
                *(self._store, StoredRecords(self._store, self._rng), roster),
                name=self._name,
                epoch=epoch,
                delay=self._delay,
                clock=self._clock,
                rng=self._rng,
            )
            await audit.build()
            await self._rounds(audit)

    async def _rounds(self, audit: Audit) -> None:
        """Do round after round, each when it is due or when something happened. A failure of the
        store costs a round, and the auditor keeps its knowledge.
        """
        pauses = AGAIN.pauses(self._rng)
        while True:
            try:
                version, names = await self._switch(), await self._store.children(BOOKIES)
                seconds = await audit.round()
                pauses.reset()
            except HandleClosedError:
                raise
            except QuireError as error:
                _log.warning("auditor %s: %s", self._name, error)
                await asyncio.sleep(pauses.next())
                continue
            with suppress(TimeoutError, QuireError):
                async with time_limit(seconds):
                    await first_of(
                        self._store.wait(HEALING_SWITCH, version),
                        self._store.wait_children(BOOKIES, names),
                    )

    async def _switch(self) -> int | None:
        try:
            return (await self._store.get(HEALING_SWITCH)).version
        except NoSuchNodeError:
            return None

    def _report(self, error: Exception) -> None:
        _log.critical("auditor %s ends by a defect: %s", self._name, error, exc_info=error)


@asynccontextmanager
async def auditing(
    store: MetadataStore,
    name: str,
    *,
    delay: float,
    clock: Callable[[], float],
    rng: random.Random,
    connect: Callable[[BookieAddress], LinkedBookie] = link_bookie,
) -> AsyncIterator[Auditor]:
    """Offer an auditor while the block runs; see `Auditor`."""
    auditor = Auditor(store, name, delay=delay, clock=clock, rng=rng, connect=connect)
    auditor.start()
    try:
        yield auditor
    finally:
        await auditor.close()
