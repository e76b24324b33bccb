"""A metadata store that is put back from a backup, or loses its counter, while all goes on.

Writers write ledgers; some end them, some delete them, some live on through the disaster. A backup
is taken at one moment and put back at a later one, as `quire metadata restore` leaves a store: the
next incarnation, not adopted, and a counter that gives nothing out. Every session ends with it.
Bookies find out and end; a supervisor starts them again and again, until an operator adopts the
store with production's own `adopt`. Then writers make new ledgers. What must hold:

  I1  an id means one ledger: it has one token, and its entries are those of one writer
  I1  nothing is collected between the disaster and the adoption
  T2  a version of a record means one value, before the disaster and after it
  L1  what was acknowledged of a ledger that is in the store is there when it is recovered, also if
      it was written to ensembles that the record of the day of the backup does not name

Not here: a store whose files were exchanged by hand, which nothing can tell from the true one as
long as its counter is high enough (docs/operations.md); the steps of a restore (tests/metadata).
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from typing import Final

from quire.aio.timing import time_limit
from quire.entry import EntryId, LedgerId
from quire.errors import (
    IntegrityError,
    NoSuchEntryError,
    NoSuchLedgerError,
    QuireError,
    StoreWentBackError,
)
from quire.ledger.ids import decode_counter, encode_counter
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.quorum import Replication
from quire.ledger.writer import LedgerWriter
from quire.metadata.adopt import adopt
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER, LEDGER_IDS, LEDGERS
from tests.sim.clients import ClientMachine, join
from tests.sim.history import Violation, require
from tests.sim.store import Snapshot
from tests.sim.world import SimWorld

GIVEN_UP_SECONDS: Final = 2.0
TURN_SECONDS: Final = 0.6
"""Mean length of each of the times: before the backup, after it, before the adoption, after it."""

RULE_ID: Final = "I1 an id means one ledger"


class RestoredWorkload:
    """See the module."""

    def __init__(self, world: SimWorld, rng: random.Random, replication: Replication) -> None:
        self.world = world
        self.rng = rng
        self.replication = replication
        world.budget.set(replication.ack_quorum)
        self.acks = 0
        self.loses_counter = rng.random() < 0.3
        self.meant: dict[tuple[str, int], bytes] = {}
        """Values of the store's records, by path and version."""
        self.tokens: dict[LedgerId, str] = {}
        self.acked: dict[LedgerId, set[EntryId]] = defaultdict(set)
        self.deleted: set[LedgerId] = set()
        self.lost: set[LedgerId] = set()
        """Ledgers that the store forgot, until it is adopted."""
        self.working: list[tuple[ClientMachine, asyncio.Task[None]]] = []
        self.is_over = asyncio.Event()

    async def run(self) -> None:
        """Write, lose the store, put it back, adopt it, write on, and look at everything."""
        world, rng = self.world, self.rng
        await world.start()
        world.tree.listeners.append(self._changed)
        world.begin_faults()
        self._begin_writers("early", rng.choice([1, 2, 3]))
        await self._turn()
        backup = world.tree.snapshot()
        self._begin_writers("late", rng.choice([0, 1, 2]))
        await self._turn()
        self._disaster(backup)
        await self._turn()
        await self._adopt()
        self._begin_writers("new", rng.choice([1, 2]))
        await self._turn()
        self.is_over.set()
        await world.heal()
        async with world.all_ends("every writer is done"):
            for client, task in self.working:
                await join(client, task)
        await self._look_at_all()

    async def _turn(self) -> None:
        await asyncio.sleep(self.rng.expovariate(1 / TURN_SECONDS))

    # -- writers -----------------------------------------------------------------------------------

    def _begin_writers(self, name: str, count: int) -> None:
        for number in range(count):
            client = self.world.client(f"{name}{number}")
            self.working.append((client, client.run(self._write)))

    async def _write(self, client: ClientMachine) -> None:
        """Write one ledger after the other."""
        rng = self.world.rng(client.name)
        while not self.is_over.is_set():
            writer: LedgerWriter | None = None
            with suppress(TimeoutError, QuireError):
                async with time_limit(GIVEN_UP_SECONDS):
                    writer = await client.catalog.create(self.replication)
            if writer is None:
                await asyncio.sleep(0.1)
                continue
            try:
                await self._append(writer, rng)
            finally:
                writer.abandon()
                with suppress(QuireError):
                    await writer.close()
            if rng.random() < 0.3:
                await self._delete(client, writer.ledger)

    async def _append(self, writer: LedgerWriter, rng: random.Random) -> None:
        ledger, token = writer.ledger, writer._metadata.token
        for _ in range(rng.choice([3, 10, 40])):
            if self.is_over.is_set():
                return
            self.world.in_flight += 1
            try:
                async with time_limit(GIVEN_UP_SECONDS):
                    entry = await writer.append(token.encode())
            except (QuireError, TimeoutError) as error:
                self.world.say("writer", f"gives ledger {ledger} up: {error!r}")
                return
            finally:
                self.world.in_flight -= 1
            self.acks += 1
            if self.tokens.get(ledger) == token:
                self.acked[ledger].add(entry)
                self.world.metadata_watch.confirm(ledger, entry)
            if rng.random() < 0.7:
                await asyncio.sleep(rng.expovariate(20.0))

    async def _delete(self, client: ClientMachine, ledger: LedgerId) -> None:
        with suppress(QuireError, TimeoutError):
            async with time_limit(GIVEN_UP_SECONDS):
                await client.catalog.close_and_delete(ledger)

    # -- the store ---------------------------------------------------------------------------------

    def _disaster(self, backup: Snapshot) -> None:
        world, tree = self.world, self.world.tree
        if self.loses_counter:
            world.note_fault("counter lost")
            if tree.version(LEDGER_IDS) is not None:
                tree.delete(LEDGER_IDS, None)
            return
        world.note_fault("store put back")
        records = backup.records
        cluster = Cluster.decode(records[CLUSTER])
        begun = replace(cluster, incarnation=cluster.incarnation + 1, adopted=False)
        following = decode_counter(records[LEDGER_IDS]).following if LEDGER_IDS in records else 0
        counter = encode_counter(following, is_withheld=True)
        tree.put_back(backup, {CLUSTER: begun.encode(), LEDGER_IDS: counter})
        found = [
            LedgerMetadata.decode(path, value)
            for path, value in records.items()
            if path.startswith(LEDGERS + "/") and value
        ]
        self.lost = set(world.metadata_watch.current) - {each.ledger for each in found}
        world.metadata_watch.put_back(found)
        world.conformance.put_back()
        world.log_conformance.put_back()
        world.say("world", f"puts the store back; ledgers {sorted(self.lost)} are forgotten")

    async def _adopt(self) -> None:
        operator = self.world.client("operator")

        async def work(client: ClientMachine) -> None:
            assert client.store is not None
            store = client.store
            rng = self.world.rng(client.name)
            await client.insist(lambda: adopt(store, rng=rng))

        with suppress(TimeoutError):
            async with time_limit(GIVEN_UP_SECONDS):
                await join(operator, operator.run(work))
        if operator.is_running:
            operator.end_life()
        self.world.tree.wake()
        attempts = 0
        while not self._is_adopted():
            attempts += 1  # an operator that was stopped in between begins again
            calm = self.world.client(f"patient operator {attempts}")
            self.world.network.cut.clear()
            await join(calm, calm.run(work))

    def _is_adopted(self) -> bool:
        """Whether the store counts again. One that lost its counter never said that it did not."""
        tree = self.world.tree
        is_adopted = Cluster.decode(tree.get(CLUSTER).value).adopted
        return is_adopted and tree.version(LEDGER_IDS) is not None

    def _changed(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree."""
        try:
            self._check_meaning(path, value, version)
            if path == CLUSTER and value and self.lost and Cluster.decode(value).adopted:
                self._check_kept()
            elif path.startswith(LEDGERS + "/") and path.count("/") == 4:
                self._recorded(path, value)
        except Violation as violation:
            self.world.loop.fail(violation)

    def _check_meaning(self, path: str, value: bytes | None, version: int) -> None:
        if value is not None:
            meant = self.meant.setdefault((path, version), value)
            text = f"version {version} of {path} was {meant!r}, and is {value!r}"
            require(meant == value, "T2 a version means one value", text)

    def _recorded(self, path: str, value: bytes | None) -> None:
        if value is None:
            self.deleted.add(int(path.rpartition("/")[2]))
            return
        metadata = LedgerMetadata.decode(path, value)
        known = self.tokens.setdefault(metadata.ledger, metadata.token)
        require(
            known == metadata.token,
            "I1 an id means one ledger",
            f"ledger {metadata.ledger} was created a second time",
        )
        # Its writer sent the creation again, before or after the adoption: it is not forgotten.
        self.lost.discard(metadata.ledger)
        self.world.bookie_watch.remember(metadata.ledger)

    def _check_kept(self) -> None:
        """Between the disaster and the adoption the bookies dropped nothing that was forgotten."""
        watch = self.world.bookie_watch
        for machine in self.world.bookies:
            node = machine.node
            for ledger in sorted(self.lost):
                was_there = bool(watch.acked(machine.name, ledger))
                if node is not None and was_there and not machine.is_damaged:
                    require(
                        ledger in node._storage.states,
                        "I1 nothing is collected before the adoption",
                        f"{machine.name} dropped ledger {ledger}",
                    )
        for ledger in self.lost:
            watch.forget(ledger)
        self.lost = set()

    # -- the end -----------------------------------------------------------------------------------

    async def _look_at_all(self) -> None:
        last = self.world.client("last")
        async with self.world.all_ends("every ledger is closed and read"):
            await last.run(self._look)

    async def _look(self, client: ClientMachine) -> None:
        for ledger in await client.insist(client.catalog.list):
            while True:
                try:
                    await self._look_at(client, ledger)
                    break
                except (StoreWentBackError, NoSuchLedgerError) as error:
                    text = f"ledger {ledger}: {error}"
                    require(ledger in self.deleted, "L1 no acknowledged entry is cut off", text)
                    break
                except (NoSuchEntryError, IntegrityError) as error:
                    text = f"{client.name} reads ledger {ledger}: {error!r}"
                    raise Violation("what is confirmed can be read", text) from error
                except QuireError as error:
                    client.trouble = error
                    await asyncio.sleep(0.1)

    async def _look_at(self, client: ClientMachine, ledger: LedgerId) -> None:
        reader = await client.catalog.open(ledger)
        token = reader._metadata.token.encode()
        async with reader:
            entries = [(entry.entry, entry.payload) async for entry in reader.read(0)]
        strange = [entry for entry, payload in entries if payload != token]
        require(
            not strange,
            "I1 an id means one ledger",
            f"entries {strange} of ledger {ledger} are those of another one",
        )
        missing = sorted(self.acked[ledger].difference(entry for entry, _ in entries))
        require(
            not missing,
            "no acknowledged entry is lost",
            f"ledger {ledger} was read without {missing}",
        )
