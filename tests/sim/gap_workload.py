"""A log that lost some of its records, and readers that pass over exactly these (`on_gap`).

A leader writes a log and closes it, in peace. Then bits rot in the copies of some entries: of a few
all copies are damaged, of others all but one. Faults begin: bookies crash, hang and are cut off,
and so is the metadata store, while readers read the log with `on_gap` from its beginning.

  G1  a gap is what is lost: no reader is told of an entry of which a sound copy is left
  G2  what is not lost is read: each record in order, also next to a gap
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

from quire.entry import EntryId, LedgerId, Sealer
from quire.errors import CorruptEntryError, QuireError, UnreadableError
from quire.ledger.quorum import Replication
from quire.log.directory import LogDirectory
from quire.log.manifest.options import LogOptions
from quire.log.reading.gaps import Gap
from quire.log.records.position import BEGINNING, Position
from quire.run import split_run
from tests.sim.auditors import settled
from tests.sim.clients import ClientMachine, join
from tests.sim.disk import SimDisk
from tests.sim.history import require
from tests.sim.machines import BookieMachine
from tests.sim.world import SimWorld

NAME: Final = "log"
PAUSE_SECONDS: Final = 0.1
STORED: Final = "entries/"
"""Where rot is found when it is read, not when the bookie starts."""

FATES: Final = ("sound", "sound", "sound", "one copy left", "lost", "lost")
Place = tuple[int, EntryId]
"""Segment and entry."""


class GapWorkload:
    """See the module."""

    def __init__(self, world: SimWorld, rng: random.Random, replication: Replication) -> None:
        self.world = world
        self.rng = rng
        self.options = LogOptions(
            replication=replication, roll_entries=rng.choice([3, 8]), batch_records=1
        )
        self.records: dict[Place, bytes] = {}
        self.lost: set[Place] = set()
        self.readers = [Reading(self, number) for number in range(rng.choice([1, 2]))]

    @property
    def acks(self) -> int:
        return sum(len(reading.found) for reading in self.readers)

    async def run(self) -> None:
        """Write, lose, read under faults, and read on when they are over."""
        world = self.world
        await world.start()
        writer = world.client("writer")
        await join(writer, writer.run(self._write))
        writer.end_life()
        for each in world.companions:
            await each.end()
        # A bookie that never gets the entries it lacks stays in limbo, which is no verdict (G1).
        async with world.all_ends("bookies have what they were asked for"):
            await settled(world)
        await self._lose()
        for each in world.companions:
            each.begin()
        world.begin_faults()
        keepers = [asyncio.create_task(reading.keep()) for reading in self.readers]
        await asyncio.sleep(self.rng.choice([0.5, 2.0, 5.0]))
        await world.heal()
        async with world.all_ends("every reader is at the end of the log"):
            await asyncio.gather(*keepers)
        for reading in self.readers:
            reading.check()

    def directory(self, client: ClientMachine) -> LogDirectory:
        assert client.store is not None
        rng = self.world.rng(f"{client.name}:{client.lives}:directory")
        return LogDirectory(client.store, client.catalog, rng=rng, clock=self.world.clock)

    async def _write(self, client: ClientMachine) -> None:
        directory = self.directory(client)
        log = await client.insist(lambda: directory.open(NAME, self.options))
        for number in range(self.rng.choice([10, 25])):
            payload = b"record %d" % number
            at = await log.append(payload)
            self.records[at.position.segment, at.position.entry] = payload
        await log.close()

    # -- losing ----------------------------------------------------------------------------------

    async def _lose(self) -> None:
        """Let copies rot where they are stored, and find out what is lost."""
        for machine in self.world.bookies:
            self.world.loop.ailing.add(machine.name)
            machine.stop()  # in order: what is in the journal is in entry logs then
        await self.world.serving()
        for segment, entry, ledger, holders in self._copies():
            fate = self.rng.choice(FATES)
            spared = self.rng.choice(holders) if fate == "one copy left" else None
            # A bookie that gave its place away may have a copy still.
            wider = self.world.bookies if self.world.companions else holders
            for machine in wider if fate != "sound" else []:
                if machine is not spared:
                    await _damage(machine, ledger, entry)
                    self.world.note_fault("copy damaged")
            self.world.say("world", f"{segment}.{entry} of ledger {ledger}: {fate}")
        for machine in self.world.bookies:
            machine.crash()  # nothing is read from memory
            machine.boot()
        await self.world.serving()
        for segment, entry, ledger, holders in self._copies():
            if not [each for each in holders if await self._is_sound(each, ledger, entry)]:
                self.lost.add((segment, entry))
                self.world.note_fault("entry lost")

    def waits_for(self, ledger: LedgerId, entry: EntryId) -> Place | None:
        """Return the place of a lost entry for which a bookie of its write set is in limbo."""
        for segment, number, of, holders in self._copies():
            if (of, number) == (ledger, entry) and (segment, number) in self.lost:
                waiting = [each for each in holders if each.node and each.node.doubts(ledger)]
                return (segment, number) if waiting else None
        return None

    def _copies(self) -> list[tuple[int, EntryId, LedgerId, list[BookieMachine]]]:
        """Every entry of the log, and the bookies that it was written to."""
        found = []
        for segment in self.world.manifest_watch.current[NAME].segments:
            metadata = self.world.metadata_watch.current[segment.ledger]
            for entry in range((metadata.last_entry or 0) + 1):
                named = metadata.write_set(entry)
                holders = [each for each in self.world.bookies if each.name in named]
                if (segment.number, entry) in self.records:
                    found.append((segment.number, entry, segment.ledger, holders))
        return found

    async def _is_sound(self, machine: BookieMachine, ledger: LedgerId, entry: EntryId) -> bool:
        metadata = self.world.metadata_watch.current[ledger]
        assert machine.node is not None
        try:
            run = await machine.node.read(ledger, entry, entry)
            [(_, frame)] = split_run(run)
            Sealer(ledger, metadata.digest, b"").unseal(entry, frame)
        except (QuireError, CorruptEntryError):
            return False
        return True


class Reading:
    """One reader, over all lives of its process: it goes on where it was."""

    def __init__(self, workload: GapWorkload, number: int) -> None:
        self._workload = workload
        self._name = f"reader{number}"
        self.found: dict[Place, bytes] = {}
        self.gaps: list[Gap] = []
        self._next = BEGINNING

    async def keep(self) -> None:
        """Read until the end is reached, in a new process whenever the old one was ended."""
        client = self._workload.world.client(self._name)
        while True:
            task = client.run(self._read)
            await join(client, task)
            is_done = task.done() and not task.cancelled()
            client.end_life()
            if is_done:
                return
            await asyncio.sleep(PAUSE_SECONDS)

    async def _read(self, client: ClientMachine) -> None:
        directory = self._workload.directory(client)
        while True:
            try:
                reader = await directory.read(NAME, self._next, on_gap=self._told_of)
                async with reader:
                    async for record in reader:
                        at = record.position
                        self._next = Position(at.segment, at.entry + 1, 0)
                        self.found[at.segment, at.entry] = record.payload
                return
            except QuireError as error:
                client.trouble = error
                self._workload.world.say(client.name, f"reads again: {error!r}")
                self._pass_limbo(error)
                await asyncio.sleep(PAUSE_SECONDS)

    def _pass_limbo(self, error: QuireError) -> None:
        """Go on behind a lost entry of which a bookie waits for a copy, as an operator does.

        A bookie that was asked to fill a hole, and finds no sound copy, stays in limbo. That is no
        verdict (G1), so no reader may leave the entry out by itself.
        """
        if isinstance(error, UnreadableError):
            at = self._workload.waits_for(error.ledger, error.entry)
            if at is not None:
                self._next = Position(at[0], at[1] + 1, 0)
                self._workload.world.note_fault("lost entry awaited")

    def _told_of(self, gap: Gap) -> None:
        sound = self._workload.records.keys() - self._workload.lost
        told = [at for at in sound if gap.first <= Position(*at, 0) < gap.end]
        text = f"{self._name} leaves out {gap}; there are copies of {sorted(told)}"
        require(not told, "G1 a gap is what is lost", text)
        self.gaps.append(gap)
        self._next = gap.end
        self._workload.world.note_fault("gap")

    def check(self) -> None:
        """G2, when the reader is at the end."""
        records, lost = self._workload.records, self._workload.lost
        expected = {at: payload for at, payload in records.items() if at not in lost}
        missing = sorted(expected.keys() - self.found.keys())
        text = f"{self._name} did not read {missing}, and read in this order: {list(self.found)}"
        # A record of which a bookie had a copy that no record of a ledger names may come back.
        is_whole = (
            not missing
            and self.found.items() <= records.items()
            and list(self.found) == sorted(self.found)
        )
        require(is_whole, "G2 what is not lost is read", text)


async def _damage(machine: BookieMachine, ledger: LedgerId, entry: EntryId) -> None:
    """Flip a bit in every stored copy of an entry. It may be damaged already, with another one."""
    assert machine.node is not None
    try:
        [(_, frame)] = split_run(await machine.node.read(ledger, entry, entry))
    except QuireError:
        return
    _rot(machine.disk, bytes(frame))


def _rot(disk: SimDisk, frame: bytes) -> None:
    for path, data in disk.files().items():
        at = data.find(frame) if path.startswith(STORED) else -1
        if at >= 0:
            disk.rot(path, at + len(frame) - 1, 1)
