"""One log: rival leaders who depose each other, followers who must miss nothing.

Leaders open the log, append (alone, in batches, pipelined), roll, trim, and go on until they are
deposed, tired or dead; then they may come back. Followers read from the beginning or from where
they were, through rolls, take-overs and trims. When the faults are over a last leader takes over
and closes the log, followers must reach its end, and fresh readers must agree on what it holds.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final, Literal, TypeAlias

from quire.aio.timing import time_limit
from quire.errors import (
    ForgottenProducerError,
    HandleClosedError,
    IntegrityError,
    LogSealedError,
    NoSuchLogError,
    OutcomeUnknownError,
    QuireError,
    TailConflictError,
    TooManyProducersError,
)
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.quorum import Replication
from quire.log.directory import LogDirectory
from quire.log.leader.log import Log
from quire.log.manifest.options import LogOptions
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING
from quire.log.segment_store.ledgers import LedgerSegments, RestingSegment
from quire.log.segment_store.port import SegmentSink
from tests.sim.archivist import Archivist
from tests.sim.clients import ClientMachine, Work, all_ended, join
from tests.sim.consumer import Consumer
from tests.sim.followers import Followers, corruption
from tests.sim.history import LogHistory, Outcome, Seen, require, seen_of
from tests.sim.lights_out import lights_out
from tests.sim.log_checkers import check_log
from tests.sim.owner import Owner
from tests.sim.rebuilding import rebuild
from tests.sim.resending import Sender
from tests.sim.seeker import Seeker
from tests.sim.world import SimWorld
from tests.sim.wrong_clocks import WrongClocks
from tests.sim.zones import draw_placement

NAME: Final = "log"
SHAPES: Final = (Replication(3, 3, 2), Replication(3, 2, 2), Replication(4, 3, 2))
SETTLING_SECONDS_MAX: Final = 30.0
LOST_MANIFEST_SHARE: Final = 0.2


HelperWork: TypeAlias = Callable[[ClientMachine, LogDirectory], Coroutine[Any, Any, None]]


class RestingSegments(LedgerSegments):
    """Ledgers as ever, with a count of their rests."""

    def __init__(self, catalog: LedgerCatalog, note: Callable[[str], None]) -> None:
        super().__init__(catalog)
        self._note = note

    def rest(self, sink: SegmentSink) -> RestingSegment | None:
        found = super().rest(sink)
        if found is not None:
            self._note("log rests")
        return found


class LogWorkload:
    """See the module."""

    may_consume: ClassVar = True
    """Whether some seeds have a consumer with a cursor, seekers, or a seal: for one log only."""

    def __init__(self, world: SimWorld, rng: random.Random, replication: Replication) -> None:
        self.world = world
        self.rng = rng
        world.budget.set(replication.ack_quorum)
        self.options = LogOptions(
            replication=replication,
            roll_bytes=rng.choice([200, 1000, 10_000]),
            roll_entries=rng.choice([3, 10, 100]),
            roll_seconds=rng.choice([0.3, 100.0]),
            batch_bytes=rng.choice([64, 1024]),
            batch_records=rng.choice([1, 4, 64]),
            records_in_flight_max=32,
            bytes_in_flight_max=4096,
            producers_max=world.rng("producers").choice([1, 2, 1000]),
            open_timeout=20.0,
            retention_interval=5.0,
            rest_seconds=world.rng("rest").choice([0.002, 0.01, 0.1, 1.0, None]),
        )
        self._directories: Counter[str] = Counter()
        self.count = rng.choice([10, 30, 60])
        self.keyring = Keyring({"k": bytes(32)}, current="k")
        if world.rng("encryption").random() < 0.3:
            self.options = replace(self.options, keyring=self.keyring)
        self.has_txids = world.rng("transactions").random() < 0.5
        self.numbered = world.rng("stamps").choice([0.0, 0.0, 0.3, 0.8])
        self.senders: dict[str, Sender] = {}
        chance = world.rng("consumer")
        wanted = chance.random() < 0.3 and self.may_consume
        self.consumer = Consumer(world, NAME, chance, wanted=wanted)
        self.clocks = WrongClocks(world, NAME, may_trim=self.may_consume and not wanted)
        self.options = self.clocks.options(self.options)
        self.seeker = Seeker(world, NAME, self.keyring, may_seek=self.may_consume)
        self.terms = world.rng("terms")
        self.has_conditions = self.terms.random() < 0.5
        self.has_janitor = self.terms.random() < 0.4
        self.owner = Owner(
            world, NAME, replication, SHAPES, may_trim=not (wanted or self.clocks.wanted)
        )
        self.archivist = Archivist(world, NAME)
        self.may_seal = world.rng("seal").random() < 0.15 and self.may_consume and not wanted
        if not self.owner.wanted:  # its other shapes may fit no zones
            luck = world.rng("placement")
            placement = draw_placement(world, replication, luck, may_relabel=False)
            self.options = replace(self.options, placement=placement)
        self.over = False
        self.first_ack = asyncio.Event()
        self.leaders: list[asyncio.Task[None]] = []
        self.followers = Followers(world, NAME, self.keyring, self._directory)

    @property
    def acks(self) -> int:
        return sum(each.outcome is Outcome.OK for each in self.world.log.appends)

    async def _settle_in(self) -> None:
        """Wait for the first ack, which a store in bad weather may keep from ever coming."""
        with suppress(TimeoutError):
            async with time_limit(SETTLING_SECONDS_MAX):
                await self.first_ack.wait()

    async def run(self) -> None:
        """The whole life of the log, faults included."""
        with self.archivist.tier.used():
            await self._live()

    async def _live(self) -> None:
        world, rng = self.world, self.rng
        await world.start()
        leaders = self._start_leaders()
        if rng.random() < 0.8:
            await self._settle_in()
        world.begin_faults()
        if self.clocks.wanted:
            world.loop.root.spawn(self.clocks.run(), name="clocks")
        self.followers.start(rng)
        if self.consumer.wanted:
            world.client("consumer").run(self._with_directory(self.consumer.run))
        seek = self.seeker.wanted and self.seeker.run
        helpers = self._start_helpers(seeker=seek, owner=self.owner.wanted and self.owner.run)
        try:
            async with time_limit(rng.choice([1.0, 3.0, 10.0])):
                for client, task in zip(leaders, self.leaders, strict=True):
                    await join(client, task)
        except TimeoutError:
            world.say("world", "is out of patience")
        self.over = True
        self._end_helpers(helpers)
        await world.heal()
        self.clocks.heal()
        await self._finish(leaders)

    def _start_helpers(self, **works: HelperWork | Literal[False]) -> list[ClientMachine]:
        """Start those who go when the leaders do."""
        works["janitor"] = self.has_janitor and self._sweep
        for number in range(self.archivist.count):
            works[f"archivist{number}"] = self.archivist.run
        helpers = []
        for name, work in works.items():
            if work:
                helpers.append(self.world.client(name))
                helpers[-1].run(self._with_directory(work))
        return helpers

    def _end_helpers(self, helpers: list[ClientMachine]) -> None:
        for helper in helpers:
            helper.end_life()
        self.archivist.tier.heal()

    def _start_leaders(self) -> list[ClientMachine]:
        world, rng = self.world, self.rng
        leaders = [world.client(f"leader{i}") for i in range(rng.choice([1, 2, 2, 3]))]
        for client in leaders:
            self.leaders.append(client.run(self._leader(rng.random() * 0.5)))
        return leaders

    def _directory(self, client: ClientMachine) -> LogDirectory:
        assert client.store is not None
        world = self.world
        life = f"{client.name}:{client.lives}:directory"
        self._directories[life] += 1
        # Each has names for pages of its own, as each process has.
        number = self._directories[life] - 1
        rng = world.rng(f"{life}:{number}" if number else life)
        return LogDirectory(
            client.store,
            client.catalog,
            segments=RestingSegments(client.catalog, world.note_fault),
            rng=rng,
            clock=client.clock,
            steady=self.clocks.steady(client),
        )

    def _with_directory(self, work: HelperWork) -> Work[None]:
        return lambda client: work(client, self._directory(client))

    # -- leaders ---------------------------------------------------------------------------------

    def _leader(self, delay: float) -> Work[None]:
        async def work(client: ClientMachine) -> None:
            await asyncio.sleep(delay)
            rng = self.world.rng(client.name)
            directory = self._directory(client)
            while not self.over:
                options = partial(self.consumer.options, self.options)
                log = await self._open(client, directory, options)
                if log is None:
                    return
                self.world.say(client.name, f"leads at epoch {log.epoch}")
                await self._lead(client, log, rng)
                if rng.random() < 0.3:
                    return
                await asyncio.sleep(rng.random())

        return work

    async def _open(
        self, client: ClientMachine, directory: LogDirectory, options: Callable[[], LogOptions]
    ) -> Log | None:
        """Take the log over; None when it was sealed."""
        history = self.world.log

        async def attempt() -> Log | None:
            try:
                return await directory.open(NAME, options())
            except LogSealedError as error:
                require(history.sealing, "seal", f"nobody sealed the log, and yet {error}")
                return None

        return await client.insist(attempt)

    async def _seal(self, client: ClientMachine, log: Log) -> None:
        self.world.log.sealing = True
        await log.seal()
        self.world.log.sealed = True
        self.world.note_fault("log sealed")
        self.world.say(client.name, f"sealed the log at epoch {log.epoch}")

    async def _lead(self, client: ClientMachine, log: Log, rng: random.Random) -> None:
        async with self._closing(client, log) as waiting:
            try:
                await self._sender(client).send_again(log)
                for number in range(self.count):
                    if self.over or log.is_deposed:
                        break
                    await self._step(client, log, rng, number, waiting)
                if self.may_seal and self.acks and rng.random() < 0.5:
                    await self._seal(client, log)
            except QuireError as error:
                self.world.say(client.name, f"stops: {error!r}")
            if rng.random() < 0.3:
                log.abandon()
            for task in waiting:
                await task
        self.world.say(client.name, f"led at epoch {log.epoch}")

    @asynccontextmanager
    async def _closing(
        self, client: ClientMachine, log: Log
    ) -> AsyncIterator[list[asyncio.Task[None]]]:
        """Close a log in the end, as leaving its `async with` does, and see its appends ended."""
        waiting: list[asyncio.Task[None]] = []
        try:
            yield waiting
        finally:
            try:
                await log.close()
            except QuireError as error:
                self.world.say(client.name, f"cannot close: {error!r}")
            finally:
                await all_ended(waiting)

    def _sender(self, client: ClientMachine) -> Sender:
        if client.name not in self.senders:
            rng = self.world.rng(f"{client.name}:stamps")
            sender = Sender(client.name, self.world.log, rng, self.numbered)
            self.senders[client.name] = sender
        return self.senders[client.name]

    async def _step(
        self,
        client: ClientMachine,
        log: Log,
        rng: random.Random,
        number: int,
        waiting: list[asyncio.Task[None]],
    ) -> None:
        what = rng.random()
        if what < 0.02:
            await log.roll()
        elif what < 0.04 and not (self.consumer.wanted or self.clocks.wanted):
            await self._trim(client, log, self._history(log))
        elif what < 0.2:
            await asyncio.sleep(rng.expovariate(20.0))
        size = rng.choice([0, 10, 60])
        batch = rng.choice([1, 1, 1, 3])
        payloads = tuple(
            f"{self._mark(client, log)}.{number}.{slot}:".encode() + bytes(size)
            for slot in range(batch)
        )
        waiting.append(asyncio.create_task(self._append(client, log, payloads)))
        if rng.random() < 0.5:
            await waiting[-1]
        elif rng.random() < 0.5:
            await asyncio.sleep(0)
        if sum(not task.done() for task in waiting) > 12:
            await waiting[0]
            waiting[:] = [task for task in waiting if not task.done()]

    def _history(self, log: Log) -> LogHistory:
        """What is known of a log."""
        return self.world.log

    def _mark(self, client: ClientMachine, log: Log) -> str:
        """What makes the payloads of a leader's epoch its own."""
        return f"{client.name}.{log.epoch}"

    async def _append(self, client: ClientMachine, log: Log, payloads: tuple[bytes, ...]) -> None:
        append = self.world.log.offer(client.name, log.epoch, payloads)
        append.begun_in = self.world.manifest_watch.current[NAME].epoch
        if self.has_txids and len(self.world.log.appends) % 3:
            append.txid = log.epoch * 1000 + len(self.world.log.appends) // 5
        sender = self._sender(client)
        producer_sequence = None if append.txid is not None else sender.number(append)
        marks: dict[str, Any] = {"txid": append.txid, "producer_sequence": producer_sequence}
        if self.has_conditions and producer_sequence is None and self.terms.random() < 0.2:
            append.expected_offset = marks["expected_offset"] = log.next_offset
            await asyncio.sleep(0)  # somebody may come in between
        self.world.in_flight += 1
        begun = self.world.loop.time()
        try:
            if len(append.payloads) == 1:
                told = [await log.append(append.payloads[0], **marks)]
            else:
                told = await log.append_many(append.payloads, **marks)
        except OutcomeUnknownError as error:
            append.outcome = Outcome.UNKNOWN
            self.world.say(client.name, f"does not know about {append.payloads}: {error!r}")
        except (HandleClosedError, LogSealedError, TailConflictError):
            append.outcome = Outcome.FAILED
        except (ForgottenProducerError, TooManyProducersError) as error:
            append.outcome = Outcome.FAILED
            self.world.note_fault("producer refused")
            self.world.say(client.name, f"is refused: {error}")
            sender.refused(producer_sequence)
        else:
            self.world.log.confirm(append, told)
            self.clocks.confirm(append, begun)
            self.first_ack.set()
            self.world.manifest_watch.confirm(NAME, told[-1].position)
            self.world.say(client.name, f"holds {told[0].position} confirmed")
            await sender.doubt(log, append, producer_sequence)
        finally:
            self.world.in_flight -= 1

    async def _trim(self, client: ClientMachine, log: Log, history: LogHistory) -> None:
        position = history.highest
        if position is None:
            return
        history.give_up(position)
        self.world.say(client.name, f"trims to {position}")
        await log.trim(position)

    async def _sweep(self, client: ClientMachine, directory: LogDirectory) -> None:
        """Delete orphans all the time, while leaders create ledgers."""
        while True:
            await asyncio.sleep(self.terms.expovariate(4.0))
            with suppress(QuireError):
                swept = await directory.gc()
                self.world.say(client.name, f"sweeps {swept}")

    # -- the end ---------------------------------------------------------------------------------

    async def _finish(self, leaders: list[ClientMachine]) -> None:
        world = self.world
        last, first_reader = world.client("last"), world.client("reader0")
        async with world.all_ends("the log is closed and followers are at its end"):
            for client, task in zip(leaders, self.leaders, strict=True):
                await join(client, task)
            finals = await self._read_all(last, first_reader)
            is_lost = world.rng("manifest").random() < LOST_MANIFEST_SHARE
            if finals[0] and is_lost and not self.archivist.wanted:
                await world.client("administrator").run(partial(self._rebuild, finals[0]))
        check_log(finals, world.log)
        self.seeker.check(finals[0], world.log)

    async def _rebuild(self, final: list[Seen], client: ClientMachine) -> None:
        await rebuild(self.world, NAME, client, self._directory(client), final, self._scan)

    async def _read_all(self, last: ClientMachine, first_reader: ClientMachine) -> list[list[Seen]]:
        """Close the log and see followers to its end; return the passes of fresh readers. All
        bookies may lose power between the two.
        """
        if self.clocks.is_awaited and not self.world.log.sealing:
            keeper = partial(self.clocks.await_retention, options=self.options)
            await self.world.client("keeper").run(self._with_directory(keeper))
        await last.run(self._close_log)
        if self.archivist.wanted:
            await self.world.client("archivist9").run(self._with_directory(self.archivist.finish))
        finals = [await first_reader.run(self._scan)]
        await self._await_followers(finals[0])
        await lights_out(self.world)
        finals.append(await self.world.client("reader1").run(self._scan))
        return finals

    async def _close_log(self, client: ClientMachine) -> None:
        log = await self._open(client, self._directory(client), lambda: self.options)
        if log is not None:
            await self._append(client, log, (b"the end",))
            await log.close()

    async def _scan(self, client: ClientMachine) -> list[Seen]:
        while True:
            reading = self.world.log.scan(client.name)
            try:
                reader = await self._directory(client).read(NAME, BEGINNING, keyring=self.keyring)
                async with reader:  # after an error as well: fetches may be under way
                    async for record in reader:
                        reading.take(seen_of(record))
            except NoSuchLogError:
                raise
            except IntegrityError as error:
                raise corruption(client, error) from error
            except QuireError as error:
                client.trouble = error
                self.world.log.scans.remove(reading)
                await asyncio.sleep(0.1)
                continue
            return reading.records

    async def _await_followers(self, final: list[Seen]) -> None:
        """Every follower that lives must get to the end."""
        await self.followers.reach(final[-1].position if final else None)


def draw_log_workload(rng: random.Random) -> tuple[Replication, int]:
    """Draw a shape and how many bookies the cluster has."""
    replication = rng.choice(SHAPES)
    return replication, replication.ensemble + rng.choice([0, 1, 2])
