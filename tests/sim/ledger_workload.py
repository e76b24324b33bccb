"""One ledger: a writer that pipelines, recoverers that race it, readers that follow.

Every seed draws the replication, the sizes, who comes when. The writer may be killed, fenced, cut
off or left alone; what it hears is put into the history. When the faults are over a fresh client
recovers the ledger, and everything that still runs must come to its end.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Final

from quire.aio.tasks import stop
from quire.aio.timing import time_limit
from quire.entry import BookieId, DigestKind, EntryId, LedgerId, Sealer
from quire.errors import (
    HandleClosedError,
    IntegrityError,
    LedgerClosedError,
    LedgerFencedError,
    NoSuchEntryError,
    OutcomeUnknownError,
    QuireError,
    RetryError,
)
from quire.ledger.numbered import NumberedWriter
from quire.ledger.quorum import Replication
from quire.ledger.reader import LedgerReader
from quire.ledger.writer import LedgerWriter
from quire.metastore.layout import ledger_path
from tests.sim.ambush import Ambush
from tests.sim.amnesia import Amnesia
from tests.sim.checkers import check_ledger
from tests.sim.clients import ClientMachine, Work, all_ended, join
from tests.sim.faults import Theme
from tests.sim.history import Append, End, Outcome, Violation, require
from tests.sim.inspection import inspect
from tests.sim.intruder import intrude, replace, squat
from tests.sim.lights_out import lights_out
from tests.sim.world import SimWorld
from tests.sim.zones import draw_placement

SHAPES: Final = (
    (Replication(3, 3, 2), 10),
    (Replication(3, 2, 2), 4),
    (Replication(3, 3, 3), 2),
    (Replication(4, 3, 2), 4),
    (Replication(5, 3, 2), 2),
    (Replication(5, 5, 3), 1),
    (Replication(2, 2, 1), 1),
    (Replication(4, 2, 1), 1),
    (Replication(1, 1, 1), 1),
)
ACKS_MIN: Final = 1
"""A run with fewer acknowledged entries proves nothing: void. Short ledgers prove much."""

SAFETY_SECONDS_MAX: Final = 60.0


class LedgerWorkload:
    """See the module."""

    def __init__(self, world: SimWorld, rng: random.Random, replication: Replication) -> None:
        self.world = world
        self.rng = rng
        self.replication = replication
        world.budget.set(replication.ack_quorum)
        self.digest = rng.choice([DigestKind.CRC32C, DigestKind.CRC32C, DigestKind.HMAC_SHA256])
        self.password = b"secret" if rng.random() < 0.3 else b""
        self.count = rng.choice([8, 20, 40, 80])
        self.pace = rng.choice([0.0, 0.005, 0.02, 0.06])
        """Mean pause after every other append, in seconds."""
        self.ledger: LedgerId | None = None
        self.created = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []
        chance = 0.8 if world.mix.theme is Theme.RACE else rng.choice([0.0, 0.0, 0.3, 0.7])
        self.ambush = Ambush(
            world,
            world.rng("ambush"),
            chance,
            rival=self._rival,
            ensemble=self._ensemble,
        )
        traits = world.rng("traits")
        self.deferred_sync = traits.random() < world.mix.deferred_sync
        """Appends are answered early; an entry counts as acknowledged once it was forced."""
        self.full_quorum = traits.random() < 0.1
        self.placement = draw_placement(
            world, replication, world.rng("placement"), may_relabel=True
        )
        self.force_pause = traits.choice([0.05, 0.05, 0.5])
        """Mean seconds from an answer to the force: time enough to lose what is not durable."""
        forgets = self.deferred_sync and bool(world.mix.rates) and traits.random() < 0.5
        self.amnesia = Amnesia(world, world.rng("amnesia"), wanted=forgets)
        self.unanswered = 0
        self.writing: list[asyncio.Task[None]] = []
        """What waits for answers: it ends when the writer does."""
        self.numbered: NumberedWriter | None = None

    @property
    def acks(self) -> int:
        return sum(append.outcome is Outcome.OK for append in self.world.ledgers.appends)

    async def run(self) -> None:
        """The whole life of the ledger, faults included."""
        world, rng = self.world, self.rng
        await world.start()
        writer = world.client("writer")
        self.tasks.append(writer.run(self._write))
        if rng.random() < 0.8:
            await self.created.wait()
        world.begin_faults()
        others = [world.client(f"recoverer{i}") for i in range(rng.choice([0, 1, 1, 2]))]
        span = rng.choice([0.3, 1.0, 2.0]) * (0.03 + self.count * self.pace / 2)
        if world.mix.rates:
            world.tree.listeners.append(self._record_changed)
        for client in others:
            self.tasks.append(client.run(self._recoverer(rng.random() * span)))
        for number in range(rng.choice([0, 1, 2])):
            reader = world.client(f"reader{number}")
            self.tasks.append(reader.run(self._reader(rng.random() * span)))
        await self._quiet(writer, others)
        await world.heal()
        await self._finish()

    async def _quiet(self, writer: ClientMachine, others: list[ClientMachine]) -> None:
        """Wait until the writer and the recoverers are done or dead, or the time is up."""
        try:
            async with time_limit(self.rng.choice([1.0, 3.0, SAFETY_SECONDS_MAX])):
                for client, task in zip([writer, *others], self.tasks, strict=False):
                    await join(client, task)
        except TimeoutError:
            self.world.say("world", "is out of patience")

    # -- where it hurts --------------------------------------------------------------------------

    def _record_changed(self, path: str, value: bytes | None, version: int) -> None:
        """The ledger's record changes: that is when roles change hands."""
        if self.ledger is not None and path == ledger_path(self.ledger):
            self.ambush.moment()

    def _ensemble(self) -> Sequence[BookieId]:
        metadata = self.world.metadata_watch.current.get(self.ledger or 0)
        return () if metadata is None else metadata.last_fragment.bookies

    def _rival(self, name: str) -> ClientMachine:
        client = self.world.client(name)
        self.tasks.append(client.run(self._recoverer(0.0)))
        return client

    # -- the writer ------------------------------------------------------------------------------

    async def _write(self, client: ClientMachine) -> None:
        writer = await client.insist(
            lambda: client.catalog.create(
                self.replication,
                password=self.password,
                digest=self.digest,
                deferred_sync=self.deferred_sync,
                full_quorum=self.full_quorum,
                placement=self.placement,
            )
        )
        self.ledger = writer.ledger
        self.created.set()
        try:
            await self._append_all(client, writer, self.world.rng("writer"))
        except asyncio.CancelledError:
            try:
                await self._close_writer(client, self.numbered or writer)
            finally:
                await all_ended(self.writing)
            raise

    async def _append_all(
        self, client: ClientMachine, writer: LedgerWriter, rng: random.Random
    ) -> None:
        """Append what there is to append, hear of it, and end the writer."""
        for number in range(self.count):
            payload = self._payload(number, rng)
            append = self.world.ledgers.offer(client.name, writer.ledger, payload)
            if number == self.count - 2:
                self.amnesia.prepare(self._ensemble())
            try:
                future = await writer.submit(payload)
            except QuireError as error:
                self._refused(append, error)
                break
            self._submitted(writer, append, future)
            await self._pause(rng)
        for task in self.writing:
            await task
        await self._end_writer(client, writer, rng)

    def _payload(self, number: int, rng: random.Random) -> bytes:
        return f"{number}:".encode() + bytes(rng.choice([0, 8, 30, 30, 400]))

    async def _pause(self, rng: random.Random) -> None:
        if self.pace and rng.random() < 0.5:
            await asyncio.sleep(rng.expovariate(1 / self.pace))
        elif rng.random() < 0.1:
            await asyncio.sleep(0)

    def _submitted(
        self, writer: LedgerWriter, append: Append, future: asyncio.Future[EntryId]
    ) -> asyncio.Task[None]:
        self.world.in_flight += 1
        self.unanswered += 1
        task = asyncio.create_task(self._await_ack(writer, append, future))
        self.writing.append(task)
        return task

    def _refused(self, append: Append, error: QuireError) -> None:
        sure = isinstance(error, RetryError | HandleClosedError | LedgerClosedError)
        append.outcome = Outcome.FAILED if sure else Outcome.UNKNOWN
        self.world.say("writer", f"is refused: {error!r}")

    async def _await_ack(
        self, writer: LedgerWriter, append: Append, future: asyncio.Future[EntryId]
    ) -> None:
        try:
            append.entry = await self._answer(future)
            if self.deferred_sync:
                chance = self.world.rng(f"force {append.entry}")
                await asyncio.sleep(chance.expovariate(1 / self.force_pause))
                if writer.last_confirmed < append.entry:
                    await writer.force()
            append.outcome = Outcome.OK
            self.world.metadata_watch.confirm(append.ledger, append.entry)
            self.world.say("writer", f"holds {append.entry} confirmed")
            if self.world.mix.rates:
                self.ambush.moment(0.05)
        except QuireError as error:
            append.outcome = Outcome.UNKNOWN
            self.world.say("writer", f"does not know about {append.payload[:8]!r}: {error!r}")
        finally:
            self.world.in_flight -= 1

    async def _answer(self, future: asyncio.Future[EntryId]) -> EntryId:
        try:
            return await future
        finally:
            self.unanswered -= 1
            if not self.unanswered:
                self.amnesia.strike()

    async def _end_writer(
        self, client: ClientMachine, writer: LedgerWriter | NumberedWriter, rng: random.Random
    ) -> None:
        if rng.random() < 0.4:
            await asyncio.sleep(0.05)
            writer.abandon()
            await self._close_writer(client, writer)
            return
        await self._close_writer(client, writer)

    async def _close_writer(
        self, client: ClientMachine, writer: LedgerWriter | NumberedWriter
    ) -> None:
        try:
            await writer.close()
        except (LedgerFencedError, LedgerClosedError, OutcomeUnknownError, RetryError) as error:
            self.world.say("writer", f"cannot close: {error!r}")
            return
        except HandleClosedError:
            return
        metadata = (writer.writer if isinstance(writer, NumberedWriter) else writer)._metadata
        if metadata.is_closed and metadata.last_entry is not None:
            self._saw_end(client, metadata.last_entry)

    def _saw_end(self, client: ClientMachine, last_entry: EntryId) -> None:
        assert self.ledger is not None
        self.world.say(client.name, f"sees the ledger closed at {last_entry}")
        self.world.ledgers.ends.append(End(client.name, self.ledger, last_entry))

    # -- recoverers and readers ------------------------------------------------------------------

    def _recoverer(self, delay: float) -> Work[None]:
        async def work(client: ClientMachine) -> None:
            await self.created.wait()
            await asyncio.sleep(delay)
            await self._recover(client)

        return work

    async def _recover(self, client: ClientMachine) -> list[bytes]:
        """Recover the ledger, read all of it, and say where it ends."""
        assert self.ledger is not None
        ledger = self.ledger
        self.world.say(client.name, "recovers")
        reader = await client.insist(lambda: client.catalog.open(ledger, password=self.password))
        assert reader._metadata.last_entry is not None
        self._saw_end(client, reader._metadata.last_entry)
        async with reader:
            return await self._read(client, reader)

    async def _read(self, client: ClientMachine, reader: LedgerReader) -> list[bytes]:
        while True:
            reading = self.world.ledgers.read(client.name, reader.ledger, 0)
            try:
                async for entry in reader.read(0):
                    reading.entries.append((entry.entry, entry.payload))
                return [payload for _, payload in reading.entries]
            except RetryError as error:
                client.trouble = error
                await asyncio.sleep(0.1)
            except (NoSuchEntryError, IntegrityError) as error:
                raise _unreadable(client, reader.ledger, error) from error

    def _reader(self, delay: float) -> Work[None]:
        async def work(client: ClientMachine) -> None:
            await self.created.wait()
            await asyncio.sleep(delay)
            assert self.ledger is not None
            ledger = self.ledger
            reader = await client.insist(
                lambda: client.catalog.open_without_recovery(ledger, password=self.password)
            )
            rng = self.world.rng(client.name)
            async with reader:
                await self._look(client, reader, rng)
                if rng.random() < 0.3:
                    await intrude(self.world, client, ledger, rng)
                forger = self.world.rng(f"{client.name}:forger")
                if forger.random() < 0.3:
                    sealer = Sealer(ledger, self.digest, self.password)
                    await replace(self.world, client, sealer, forger)
                squatter = self.world.rng(f"{client.name}:squatter")
                if squatter.random() < 0.3:
                    await squat(client, self.world, squatter)
                await self._follow_together(client, reader, rng.choice([0, 0, 3]))

        return work

    async def _follow_together(
        self, client: ClientMachine, reader: LedgerReader, first: EntryId
    ) -> None:
        """Follow by several readers of one process. Others than `reader` are slow, or leave."""
        beside = self.world.rng(f"{client.name}:beside")
        others = [
            asyncio.create_task(self._accompany(client, reader.ledger, beside))
            for _ in range(beside.choice([0, 1, 2]))
        ]
        try:
            await self._follow(client, reader, first)
            await all_ended(others)
        finally:
            await stop(*others)

    async def _accompany(self, client: ClientMachine, ledger: LedgerId, rng: random.Random) -> None:
        await asyncio.sleep(rng.random() * 0.2)
        first, most = rng.choice([0, 0, 3, 10]), rng.choice([2, 10, self.count, self.count])
        while True:
            reader = await client.insist(
                lambda: client.catalog.open_without_recovery(ledger, password=self.password)
            )
            async with reader:
                if most == self.count:
                    await self._follow(client, reader, first, rng)
                    return
                reading = self.world.ledgers.read(client.name, ledger, first)
                with suppress(NoSuchEntryError):
                    async with aclosing(reader.follow(first)) as entries:
                        async for entry in entries:
                            reading.entries.append((entry.entry, entry.payload))
                            if len(reading.entries) == most:
                                break
            if len(reading.entries) < most:
                return
            self.world.note_fault("follower left")
            first += most

    async def _look(self, client: ClientMachine, reader: LedgerReader, rng: random.Random) -> None:
        """Ask for LAC a few times and read up to it; it never falls."""
        known = -1
        for _ in range(rng.choice([0, 1, 4])):
            try:
                lac = await reader.last_confirmed()
            except RetryError:
                continue
            require(lac >= known, "LAC never falls", f"{client.name} saw {known}, then {lac}")
            known = lac
            reading = self.world.ledgers.read(client.name, reader.ledger, 0)
            try:
                async for entry in reader.read(0, lac if lac >= 0 else None):
                    reading.entries.append((entry.entry, entry.payload))
            except RetryError:
                continue
            except (NoSuchEntryError, IntegrityError) as error:
                raise _unreadable(client, reader.ledger, error) from error
            require(
                len(reading.entries) == lac + 1 or lac < 0,
                "what is confirmed can be read",
                f"{client.name} read {len(reading.entries)} entries, LAC is {lac}",
            )
            await asyncio.sleep(rng.random() * 0.1)

    async def _follow(
        self,
        client: ClientMachine,
        reader: LedgerReader,
        first: EntryId,
        slow: random.Random | None = None,
    ) -> None:
        """Follow to the end; with `slow` as a program that now and then has other work."""
        reading = self.world.ledgers.read(client.name, reader.ledger, first)
        try:
            async for entry in reader.follow(first):
                reading.entries.append((entry.entry, entry.payload))
                if slow is not None and slow.random() < 0.2:
                    await asyncio.sleep(slow.expovariate(20.0))
        except NoSuchEntryError:
            end = reader._metadata.last_entry
            require(
                end is not None and first > end + 1,
                "followers reach the end",
                f"{client.name} was told there is no entry {first}; the end is {end}",
            )
            return
        end = reader._metadata.last_entry
        require(
            end is not None and first + len(reading.entries) == end + 1,
            "followers reach the end",
            f"{client.name} followed from {first} and got {len(reading.entries)}; the end is {end}",
        )

    # -- the end ---------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """After the faults: everything ends in bounded time, and the evidence is checked."""
        world = self.world
        if self.ledger is None:
            living = [task for task in self.tasks if not task.done()]
            for client in world.clients:
                client.end_life()
            world.say("world", f"no ledger was created, {len(living)} tasks are dropped")
            return
        last = world.client("last")
        async with world.all_ends("the ledger is closed and everybody is done"):
            payloads = await last.run(self._recover)
            for client, task in zip(world.clients, self.tasks, strict=False):
                await join(client, task)
            await lights_out(world)
            await world.mended(self.ledger)
        metadata = world.metadata_watch.current[self.ledger]
        final = await inspect(world, metadata, payloads, self.password)
        check_ledger(final, world.ledgers)


def _unreadable(client: ClientMachine, ledger: LedgerId, error: QuireError) -> Violation:
    text = f"{client.name} reads ledger {ledger}: {type(error).__name__}: {error}"
    return Violation("what is confirmed can be read", text)


def draw_ledger_workload(world_rng: random.Random) -> tuple[Replication, int]:
    """Draw a shape and how many bookies the cluster has."""
    shapes, weights = zip(*SHAPES, strict=True)
    replication = world_rng.choices(shapes, weights)[0]
    spare = world_rng.choice([0, 1, 1, 2, 2])
    return replication, replication.ensemble + spare
