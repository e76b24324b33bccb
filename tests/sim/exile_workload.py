"""Writers that sleep, or are cut off from the metadata store, while their ledger is ended, deleted
and dropped by every bookie; then they write on.

An heir recovers the exile's ledger and deletes it. Bookies collect it in two rounds, restart, lose
files and are repaired. The exile, still cut off, appends again. The exile knows nothing of all
this, and what it believes does not matter:

  H8  no entry is acknowledged to the handle of a ledger that was closed before it was deleted

The checker is `MetadataWatch.confirm`; `BookieWatch` sees each bookie keep its fence (H8 as well).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from quire.aio.timing import time_limit
from quire.entry import LedgerId
from quire.errors import NoSuchLedgerError, QuireError
from quire.ledger.quorum import Replication
from quire.ledger.writer import LedgerWriter
from tests.sim.clients import ClientMachine, join
from tests.sim.store import STORE
from tests.sim.world import SimWorld

ROUNDS_SECONDS_MAX: Final = 8.0
"""How long bookies are given to drop a ledger: many collection rounds."""

APPENDS: Final = 3
"""Appends of an exile before and after its exile."""

GIVEN_UP_SECONDS: Final = 2.0


class ExileWorkload:
    """See the module."""

    def __init__(self, world: SimWorld, rng: random.Random, replication: Replication) -> None:
        self.world = world
        self.rng = rng
        self.replication = replication
        world.budget.set(replication.ack_quorum)
        self.exiles = rng.choice([1, 2, 3])
        self.acks = 0

    async def run(self) -> None:
        """One exile after the other, faults included."""
        world = self.world
        await world.start()
        world.begin_faults()
        for number in range(self.exiles):
            await self._exile(world.client(f"exile{number}"), world.client(f"heir{number}"))
        await world.heal()

    async def _exile(self, exile: ClientMachine, heir: ClientMachine) -> None:
        created: asyncio.Queue[LedgerId] = asyncio.Queue()
        go_on = asyncio.Event()
        writing = exile.run(lambda client: self._write(client, created, go_on))
        ledger: LedgerId | None = None
        with suppress(TimeoutError):
            async with time_limit(ROUNDS_SECONDS_MAX):
                ledger = await created.get()
        if ledger is not None:
            back = self._send_away(exile)
            with suppress(TimeoutError):
                async with time_limit(2 * ROUNDS_SECONDS_MAX):
                    inheriting = heir.run(lambda client: self._inherit(client, ledger))
                    await join(heir, inheriting)
                    await self._all_drop(ledger)
            self._disturb_bookies()
            await asyncio.sleep(self.rng.random())
            back()
        go_on.set()
        with suppress(TimeoutError):
            async with time_limit(2 * ROUNDS_SECONDS_MAX):
                await join(exile, writing)
        for client in (exile, heir):
            client.end_life()

    async def _write(
        self, client: ClientMachine, created: asyncio.Queue[LedgerId], go_on: asyncio.Event
    ) -> None:
        writer = await client.insist(lambda: client.catalog.create(self.replication))
        try:
            await self._append(writer)
            created.put_nowait(writer.ledger)
            await go_on.wait()
            await self._append(writer)
        finally:
            writer.abandon()
            with suppress(QuireError):
                await writer.close()

    async def _append(self, writer: LedgerWriter) -> None:
        for number in range(APPENDS):
            self.world.in_flight += 1
            try:
                async with time_limit(GIVEN_UP_SECONDS):
                    entry = await writer.append(b"%d" % number)
            except (QuireError, TimeoutError) as error:
                self.world.say("exile", f"is refused: {error!r}")
                return
            finally:
                self.world.in_flight -= 1
            self.acks += 1
            self.world.metadata_watch.confirm(writer.ledger, entry)

    def _send_away(self, exile: ClientMachine) -> Callable[[], None]:
        """Pause the exile, or cut it off from the store only; return what lets it write again."""
        if self.rng.random() < 0.4:
            self.world.note_fault("exile paused")
            exile.pause()
            return exile.resume
        self.world.note_fault("exile cut off from the store")
        self.world.network.cut |= {(exile.name, STORE), (STORE, exile.name)}
        return lambda: None

    async def _inherit(self, heir: ClientMachine, ledger: LedgerId) -> None:
        """End the ledger as a take-over does, and delete it as a trim does."""
        with suppress(NoSuchLedgerError):
            await (await heir.insist(lambda: heir.catalog.open(ledger))).close()
            await heir.insist(lambda: heir.catalog.delete(ledger))

    async def _all_drop(self, ledger: LedgerId) -> None:
        while any(  # noqa: ASYNC110
            machine.node is not None and ledger in machine.node._storage.states
            for machine in self.world.bookies
        ):
            await asyncio.sleep(0.1)
        self.world.note_fault("ledger dropped by all bookies")

    def _disturb_bookies(self) -> None:
        for machine in self.world.bookies:
            fate = self.rng.choice(["", "crash", "power cut", "stop"])
            if machine.is_running and fate:
                self.world.note_fault(f"restart after a drop: {fate}")
                {"crash": machine.crash, "power cut": machine.power_cut, "stop": machine.stop}[
                    fate
                ]()
                if fate != "stop":
                    machine.boot()
