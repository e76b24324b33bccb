"""Logs of one name that come and go: leaders write them, erasers delete them, readers follow.

Whoever leads when the log is deleted is deposed, opens the name again and so makes the next log,
which has an identity of its own. What is known of each log is kept apart by that: a reader's pass
is over one of them, and of the log that is there at the end everything holds that holds of logs.

  D1  a leader confirms nothing that was appended when its log was gone already
  D2  with the record of a log goes every ledger that it lists
  D3  nobody reads records of two logs in one pass
  D4  when all is over and the last log is deleted, no ledger with an entry is left
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import suppress
from functools import partial
from typing import ClassVar, Final

from quire.entry import NO_ENTRY, LedgerId
from quire.errors import (
    HandleClosedError,
    IntegrityError,
    NoSuchLogError,
    NoSuchNodeError,
    OutcomeUnknownError,
    QuireError,
)
from quire.ledger.quorum import Replication
from quire.log.leader.log import Log
from quire.log.manifest.manifest import LogManifest
from quire.log.records.position import BEGINNING
from quire.metastore.layout import ledger_path, log_path
from tests.sim.clients import ClientMachine, Work, join, outcome
from tests.sim.followers import corruption
from tests.sim.history import LogHistory, LogReading, Outcome, Seen, Violation, require, seen_of
from tests.sim.log_checkers import check_log
from tests.sim.log_workload import NAME, LogWorkload
from tests.sim.world import SimWorld

REPEAT_SECONDS: Final = 0.2
"""Between two looks for deletions that were cut short, when the faults are over."""


class DeletionWorkload(LogWorkload):
    """See the module."""

    may_consume: ClassVar = False

    def __init__(self, world: SimWorld, rng: random.Random, replication: Replication) -> None:
        super().__init__(world, rng, replication)
        self.has_txids = self.has_conditions = False
        self.numbered = 0.0
        self.logs: defaultdict[str, LogHistory] = defaultdict(LogHistory)
        self.gone: set[str] = set()
        self.passes: list[asyncio.Task[None]] = []
        self.readings: dict[str, LogReading] = {}
        """The pass under way of each follower."""
        self.whim = world.rng("eraser")
        self.erasures = self.whim.choice([1.0, 4.0, 30.0])
        """How many a second an eraser tries."""
        world.tree.listeners.append(self._record_changed)

    @property
    def acks(self) -> int:
        appends = [append for history in self.logs.values() for append in history.appends]
        return sum(append.outcome is Outcome.OK for append in appends)

    async def _live(self) -> None:
        world, rng = self.world, self.rng
        await world.start()
        leaders = self._start_leaders()
        await self._settle_in()
        world.begin_faults()
        for number in range(rng.choice([1, 1, 2])):
            follower = world.client(f"follower{number}")
            self.passes.append(follower.run(self._follower(rng.random() * 0.5)))
        erasers = [world.client(f"eraser{i}") for i in range(rng.choice([1, 1, 2]))]
        for client in erasers:
            client.run(self._erase)
        helpers = self._start_helpers()
        await asyncio.sleep(rng.choice([1.0, 3.0, 6.0]))
        self.over = True
        self._end_helpers([*erasers, *helpers])
        await world.heal()
        await self._end(leaders)

    # -- what is deleted -------------------------------------------------------------------------

    async def _erase(self, client: ClientMachine) -> None:
        while True:
            await asyncio.sleep(self.whim.expovariate(self.erasures))
            try:
                await self._directory(client).delete(NAME)
                self.world.say(client.name, "deleted the log")
                self.world.note_fault("log deleted")
            except QuireError as error:
                self.world.say(client.name, f"cannot delete: {error!r}")

    def _record_changed(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree: a log is gone when its record is."""
        if path != log_path(NAME) or value is not None:
            return
        manifest = self.world.manifest_watch.current[NAME]
        self.gone.add(manifest.log_id)
        listed: list[LedgerId] = [each.ledger for each in manifest.segments]
        left = [each for each in (*listed, *manifest.doomed) if self._is_there(each)]
        if left:
            text = f"log {manifest.log_id} is gone, its ledgers {left} are not"
            self.world.loop.fail(Violation("D2 ledgers go with their log", text))

    def _is_there(self, ledger: LedgerId) -> bool:
        try:
            self.world.tree.get(ledger_path(ledger))
        except NoSuchNodeError:
            return False
        return True

    # -- leaders ---------------------------------------------------------------------------------

    def _history(self, log: Log) -> LogHistory:
        return self.logs[log.log_id]

    def _mark(self, client: ClientMachine, log: Log) -> str:
        return f"{log.log_id[:8]}.{client.name}.{log.epoch}"

    async def _append(self, client: ClientMachine, log: Log, payloads: tuple[bytes, ...]) -> None:
        world, history = self.world, self.logs[log.log_id]
        append = history.offer(client.name, log.epoch, payloads)
        was_gone = log.log_id in self.gone
        manifest = world.manifest_watch.current[NAME]
        append.begun_in = manifest.epoch if manifest.log_id == log.log_id else log.epoch
        world.in_flight += 1
        try:
            told = await log.append_many(payloads)
        except OutcomeUnknownError as error:
            append.outcome = Outcome.UNKNOWN
            world.say(client.name, f"does not know about {payloads}: {error!r}")
        except HandleClosedError:
            append.outcome = Outcome.FAILED
        else:
            history.confirm(append, told)
            world.log_conformance.answered(log.log_id, told[-1].position)
            self.first_ack.set()
            world.say(client.name, f"holds {told[0].position} of {log.log_id[:8]} confirmed")
            text = f"{payloads!r} was appended when log {log.log_id} was gone"
            require(not was_gone, "D1 a log that is gone confirms nothing", text)
        finally:
            world.in_flight -= 1

    # -- followers -------------------------------------------------------------------------------

    def _follower(self, delay: float) -> Work[None]:
        async def work(client: ClientMachine) -> None:
            await asyncio.sleep(delay)
            while True:
                try:
                    await self._pass(client)
                except IntegrityError as error:
                    raise corruption(client, error) from error
                except QuireError as error:
                    client.trouble = error
                    self.world.say(client.name, f"starts again: {error!r}")
                    await asyncio.sleep(0.1)

        return work

    async def _pass(self, client: ClientMachine) -> None:
        """Follow one log from its beginning to its end."""
        reading = self.readings[client.name] = LogReading(client.name, BEGINNING)
        directory = self._directory(client)
        reader = await directory.read(NAME, BEGINNING, follow=True, keyring=self.keyring)
        try:
            log_id = ""
            async for record in reader:
                reading.records.append(seen := seen_of(record))
                if not log_id:
                    log_id = reader.log_id or ""
                    self.logs[log_id].readings.append(reading)
                self._check_place(client.name, log_id, seen)
        finally:
            await reader.close()

    def _check_place(self, who: str, log_id: str, seen: Seen) -> None:
        mark = seen.payload.partition(b".")[0].decode()
        text = f"{who} reads {seen} in log {log_id}"
        require(log_id.startswith(mark), "D3 a pass is over one log", text)

    # -- the end ---------------------------------------------------------------------------------

    async def _end(self, leaders: list[ClientMachine]) -> None:
        world = self.world
        last, first_reader = world.client("last"), world.client("reader0")
        async with world.all_ends("the last log is closed, read and deleted"):
            repeating = world.client("eraser8")
            repeating.run(self._erase_what_is_retired)
            for client, task in zip(leaders, self.leaders, strict=True):
                await join(client, task)
            finals = await self._read_all(last, first_reader)
            repeating.end_life()
            log_id = world.manifest_watch.current[NAME].log_id
            for client in world.clients:
                if client.name.startswith("follower"):
                    client.end_life()
            await world.client("eraser9").run(self._erase_all)
        check_log(finals, self.logs[log_id])

    async def _erase_what_is_retired(self, client: ClientMachine) -> None:
        """Repeat deletions that were cut short: until then nobody can lead the log. Again and
        again, as what an eraser asked of the store before it died may still be on its way.
        """
        while True:
            manifest = await client.insist(lambda: self._describe(client))
            if manifest is not None and manifest.retired:
                self.world.note_fault("deletion cut short")
                await client.insist(lambda: self._delete(client))
            await asyncio.sleep(REPEAT_SECONDS)

    async def _describe(self, client: ClientMachine) -> LogManifest | None:
        try:
            return await self._directory(client).describe(NAME)
        except NoSuchLogError:
            return None

    async def _close_log(self, client: ClientMachine) -> None:
        log = await client.insist(lambda: self._directory(client).open(NAME, self.options))
        await self._append(client, log, (f"{log.log_id[:8]}.the end".encode(),))
        await log.close()

    async def _await_followers(self, final: list[Seen]) -> None:
        """Every follower that lives must get to the end of the last log."""
        followers = [each for each in self.world.clients if each.name.startswith("follower")]
        for client, task in zip(followers, self.passes, strict=True):
            while client.is_running and not (task.done() or self._is_at_end(client, final)):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            await outcome(client, task)
            client.end_life()

    def _is_at_end(self, client: ClientMachine, final: list[Seen]) -> bool:
        reading = self.readings.get(client.name)
        return reading is not None and reading.records[-1:] == final[-1:]

    async def _erase_all(self, client: ClientMachine) -> None:
        """Delete the last log; what is left of any may be empty ledgers only."""
        await client.insist(lambda: self._delete(client))
        for ledger in await client.insist(client.catalog.list):
            async with await client.insist(partial(client.catalog.open, ledger)) as reader:
                end = await reader.last_confirmed()
                labels = reader._metadata.custom_metadata
                text = f"ledger {ledger} {labels} is left with entries to {end}"
                require(end == NO_ENTRY, "D4 nothing is left of a log", text)

    async def _delete(self, client: ClientMachine) -> None:
        with suppress(NoSuchLogError):
            await self._directory(client).delete(NAME)
