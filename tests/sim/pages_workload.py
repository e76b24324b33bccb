"""Editors of one log's manifest, with small pages, over a metadata store that loses answers.

Nothing is written to bookies: editors seal segments at ends that they make up, so a run makes some
hundred changes. They roll, ingest, trim, copy pages, sweep, and delete the log; each may be killed
at any step. Readers hold heads for a while and go through their pages.

  P1  what is read through pages is the list of segments as it was at the version of the head, or an
      error when the head has changed since
  P2  what is doomed is forgotten when it is deleted, not before
  P3  a job that is acknowledged is remembered, and its parts were listed
  P4  in the end no page is left that no manifest names

The manifest and its pages are watched in manifest_watch.py and page_watch.py.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

from quire.entry import LedgerId
from quire.errors import (
    BookieUnavailableError,
    LogBeingDeletedError,
    MissingPageError,
    NoSuchLedgerError,
    NoSuchLogError,
    QuireError,
)
from quire.ledger.quorum import Replication
from quire.log.maintenance.deletion import delete_ledgers
from quire.log.maintenance.doomed import delete_doomed
from quire.log.maintenance.page_sweep import delete_all_pages, sweep_forsaken, sweep_pages
from quire.log.manifest.jobs import Job
from quire.log.manifest.manifest import LogManifest, Segment, SegmentEnd
from quire.log.manifest.pages_at_hand import Walk, ask
from quire.log.manifest.record import ManifestRecord, once
from quire.log.records.position import Position
from quire.log.segment_store.port import SegmentStore
from quire.metastore.cluster import Level
from quire.metastore.layout import PAGES, log_path
from tests.sim.clients import ClientMachine, join
from tests.sim.history import Violation, require
from tests.sim.world import SimWorld

NAME: Final = "log"
PATH: Final = log_path(NAME)
JOBS = "jobs of a log are remembered"

Change: TypeAlias = Callable[[LogManifest], LogManifest]


class Ledgers:
    """Ledgers that exist; a stand-in for the catalog, of which only `delete` is used."""

    def __init__(self, rng: random.Random) -> None:
        self.living: set[LedgerId] = set()
        self._rng = rng
        self._last = 0

    def new(self) -> LedgerId:
        self._last += 1
        self.living.add(self._last)
        return self._last

    async def delete(self, ledger: LedgerId) -> None:
        await asyncio.sleep(self._rng.expovariate(2000.0))
        if self._rng.random() < 0.02:
            raise BookieUnavailableError("b0", "not now")
        if ledger not in self.living:
            raise NoSuchLedgerError(ledger)
        self.living.remove(ledger)


class PagesWorkload:
    """See the module."""

    def __init__(self, world: SimWorld, rng: random.Random, replication: Replication) -> None:
        self.world = world
        self.rng = rng
        self.ledgers = Ledgers(world.rng("ledgers"))
        self.catalog = cast(SegmentStore, self.ledgers)
        self.acks = 0
        self.over = False
        self.done: dict[str, tuple[str, int]] = {}
        """By job: the log, and the sequence that is acknowledged."""
        self.ever: set[LedgerId] = set()
        """Ledgers that were listed at some time."""
        self.sequences: dict[str, int] = {}
        self.deletions = rng.choice([0.0, 0.0, 0.01])
        self.pace = rng.choice([20.0, 200.0])
        self.trims = rng.choice([0.05, 0.2])
        world.budget.set(replication.ack_quorum)
        world.manifest_watch.on_change = self._changed
        world.manifest_watch.limits_space = False
        world.tree.listeners.append(self._noted)

    async def run(self) -> None:
        world, rng = self.world, self.rng
        await world.start()
        world.begin_faults()
        lives = [self._live(f"editor{i}", self._edit) for i in range(rng.choice([1, 2, 3]))]
        lives += [self._live(f"reader{i}", self._read) for i in range(rng.choice([1, 2]))]
        if rng.random() < 0.5:
            lives.append(self._live("sweeper", self._sweep))
        tasks = [asyncio.create_task(each) for each in lives]
        await asyncio.sleep(rng.choice([1.0, 3.0]))
        if rng.random() < 0.5:
            world.raise_level()
        await asyncio.sleep(rng.choice([1.0, 3.0]))
        self.over = True
        await world.heal()
        await asyncio.gather(*tasks)
        finisher = world.client("finisher")
        await join(finisher, finisher.run(self._finish))

    async def _live(self, name: str, work: Callable[[ClientMachine], Awaitable[None]]) -> None:
        """One process after the other does the work, until all is over."""
        number = 0
        while not self.over:
            client = self.world.client(f"{name}.{number}")
            number += 1

            async def life(client: ClientMachine) -> None:
                while not self.over:
                    await asyncio.sleep(self.rng.expovariate(self.pace))
                    try:
                        await work(client)
                    except QuireError as error:
                        self.world.say(client.name, f"gives up: {error!r}")

            await join(client, client.run(life))
            client.end_life()

    # -- what is watched -----------------------------------------------------------------------

    def _changed(self, path: str, after: LogManifest | None) -> None:
        before = self.world.manifest_watch.current.get(NAME)
        if before is None or after is None or before.log_id != after.log_id:
            return
        lost = [each for each in before.doomed if each not in after.doomed]
        left = [each for each in lost if each in self.ledgers.living]
        require(not left, "the doomed are deleted first", f"{left} are forgotten")

    def _noted(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree, behind the watch of manifests."""
        if path != PATH:
            return
        if value is None:
            gone = self.world.manifest_watch.current.pop(NAME)
            named = {*(each.ledger for each in gone.segments), *gone.doomed}
            if left := sorted(named & self.ledgers.living):
                text = f"the log is gone, its ledgers {left} are not"
                self.world.loop.fail(Violation("the doomed are deleted first", text))
            self.done = {job: it for job, it in self.done.items() if it[0] != gone.log_id}
        elif value:
            now = self.world.manifest_watch.current[NAME]
            self.ever.update(each.ledger for each in now.segments)

    # -- editors -------------------------------------------------------------------------------

    def _record(self, client: ClientMachine) -> ManifestRecord:
        assert client.store is not None
        rng = self.world.rng(f"pages of {client.name}:{self.rng.getrandbits(32)}")
        return ManifestRecord(client.store, NAME, rng, Level(client.store))

    async def _edit(self, client: ClientMachine) -> None:
        record, draw = self._record(client), self.rng.random()
        if draw < self.deletions:
            await self._delete(record)
        elif draw < self.trims:
            await self._trim(record)
        elif draw < self.trims + 0.1:
            await self._copy(record)
        elif draw < self.trims + 0.2:
            assert client.store is not None
            await sweep_pages(client.store, record)
        elif draw < self.trims + 0.35:
            await self._ingest(record, client.name)
        else:
            await self._roll(record)
        self.acks += 1

    def _ends(self) -> Callable[[Segment], SegmentEnd]:
        """Made-up ends, the same for a segment in all attempts of one edit."""
        seed = self.rng.getrandbits(32)

        def end(segment: Segment) -> SegmentEnd:
            records = random.Random(f"{seed}:{segment.number}").choice([0, 1, 2, 9])
            if not records:
                return SegmentEnd(-1, 0, 0, 0, 0)
            return SegmentEnd(records - 1, 1, records, 100, 0, segment.number)

        return end

    def _new_log(self) -> LogManifest:
        return LogManifest(NAME, f"{self.rng.getrandbits(128):032x}", 0)

    async def _roll(self, record: ManifestRecord) -> None:
        ledger, end, new = self.ledgers.new(), self._ends(), self._new_log()
        takes_over = self.rng.random() < 0.2
        place: tuple[str, int] | None = None

        def edit(found: LogManifest | None) -> LogManifest:
            now = found or new
            _check_writable(now)
            if now.lists(ledger):
                return now
            nonlocal place
            place = place or (now.log_id, now.next_segment)
            if place != (now.log_id, now.next_segment):  # it may have been listed, and have left
                raise LogBeingDeletedError(NAME)
            if takes_over:
                return now.take_over(
                    {each.number: end(each) for each in now.open_segments}, ledger, 0
                )
            if len(now.open_segments) > 1:
                first = now.open_segments[0]
                now = now.seal_segment(first.number, end(first))
            return now.append_segment(ledger, 0)

        await record.edit(once(edit, LogBeingDeletedError(NAME)))

    async def _ingest(self, record: ManifestRecord, name: str) -> None:
        end, count = self._ends(), self.rng.choice([1, 3, 12, 30])
        parts = [(self.ledgers.new(), SegmentEnd(0, 1, 1, 10, 0)) for _ in range(count)]
        sequence = self.sequences.get(name, 0) + 1
        self.sequences[name] = sequence
        job = Job(name, sequence)

        def change(now: LogManifest) -> LogManifest:
            _check_writable(now)
            if now.has_done(job):
                return now
            ends = {each.number: end(each) for each in now.open_segments}
            return now.ingest(ends, parts, job, 0)

        after = await record.edit(_of_some(change))
        lost = [ledger for ledger, _ in parts if ledger not in self.ever]
        require(
            not lost, "jobs of a log are remembered", f"{job} is done, and {lost} were never listed"
        )
        self.done[name] = (after.log_id, sequence)

    async def _trim(self, record: ManifestRecord) -> None:
        share, slot = self.rng.random() ** 2, self.rng.choice([0, 1])

        def change(now: LogManifest) -> LogManifest:
            first, last = now.first_number, now.next_segment
            number = first + int(share * (last - first + 1))
            return now.trim(min(Position(number, slot, 0), Position(last, 0, 0)))

        edit = _edits(record)
        await delete_doomed(self.catalog, await edit(change), edit)

    async def _sweep(self, client: ClientMachine) -> None:
        """Sweep without a pause: an editor may be between its pages and its head."""
        record = self._record(client)
        for _ in range(20):
            await sweep_pages(record.store, record)

    async def _copy(self, record: ManifestRecord) -> None:
        """Change something of some segments, as an offload does."""
        mark = f'{{"mark":{self.rng.getrandbits(16)}}}'
        share, count = self.rng.random(), self.rng.choice([1, 3])
        numbers: list[int] = []

        def touch(segment: Segment) -> Segment:
            if segment.number in numbers and segment.end is not None:
                return replace(segment, unknown=mark)
            return segment

        def change(now: LogManifest) -> LogManifest:
            first = now.first_number + int(share * (now.next_segment - now.first_number))
            numbers[:] = range(first, first + count)
            return now.with_segments(touch, lambda of: any(map(of.spans, numbers)))

        await record.edit(_of_some(change))

    async def _delete(self, record: ManifestRecord) -> None:
        manifest, _ = await record.read()
        log_id = manifest.log_id

        def retire(now: LogManifest) -> LogManifest:
            if now.log_id != log_id:
                raise NoSuchLogError(NAME)
            empty = SegmentEnd(-1, 0, 0, 0, 0)
            ends = {each.number: empty for each in now.open_segments}
            return now if now.retired else now.retire(ends)

        manifest = await record.edit(_of_some(retire))
        await delete_ledgers(record, self.catalog, manifest)
        manifest, version = await record.read()
        if manifest.log_id == log_id:
            await delete_all_pages(record.store, log_id)
            await record.delete(version, await record.forget_jobs(log_id))
            self.world.note_fault("log deleted")

    # -- readers -------------------------------------------------------------------------------

    async def _read(self, client: ClientMachine) -> None:
        record = self._record(client)
        manifest, version = await record.read()
        flat = self.world.manifest_watch.flat(manifest)
        for _ in range(self.rng.choice([1, 5])):
            await asyncio.sleep(self.rng.expovariate(self.pace))
            try:
                await self._ask(manifest, flat)
            except MissingPageError as error:
                if self.world.tree.version(PATH) == version:
                    raise Violation("pages of a head are there", str(error)) from error
                self.world.note_fault("reader with an old head")
                return
            self.acks += 1

    async def _ask(self, manifest: LogManifest, flat: LogManifest) -> None:
        number = self.rng.randint(0, flat.next_segment)
        ledger = self.rng.randint(0, self.ledgers._last)
        expected: Any
        match self.rng.randrange(5):
            case 0:
                found: Any = [each async for each in Walk(manifest)]
                expected = list(flat.segments)
            case 1:
                found = [each async for each in Walk(manifest, number, is_backward=True)]
                expected = [each for each in reversed(flat.segments) if each.number >= number]
            case 2:
                found = await ask(manifest, lambda: manifest.segment_from(number))
                expected = flat.segment_from(number)
            case 3:
                found = await ask(manifest, lambda: manifest.segment_before(number))
                expected = flat.segment_before(number)
            case _:
                found = await ask(manifest, lambda: manifest.lists(ledger))
                expected = flat.lists(ledger)
        text = f"{found} instead of {expected}, asked for {number} or ledger {ledger}"
        require(found == expected, "pages are the list of segments", text)

    # -- the end -------------------------------------------------------------------------------

    async def _finish(self, client: ClientMachine) -> None:
        store, record = client.store, self._record(client)
        assert store is not None
        await client.insist(lambda: sweep_forsaken(store, self._ids, self._ids))
        with suppress(NoSuchLogError):
            await record.read()
            edit = _edits(record)
            for _ in range(20):
                manifest, _ = await client.insist(record.read)
                if not (manifest.doomed or manifest.doomed_pages):
                    break
                now = manifest
                await client.insist(lambda now=now: delete_doomed(self.catalog, now, edit))  # type: ignore[misc]
            for job, (log_id, sequence) in sorted(self.done.items()):
                known = await record.ask(manifest, lambda now, job=job: now.sequence_of(job))  # type: ignore[misc]
                told = manifest.log_id != log_id or known >= sequence
                require(
                    told, "jobs of a log are remembered", f"{job} came to {sequence}, not {known}"
                )
            for _ in range(20):
                await client.insist(lambda: sweep_pages(store, record))
        self._check_swept()

    async def _ids(self) -> list[str]:
        found = self.world.manifest_watch.current.get(NAME)
        return [] if found is None else [found.log_id]

    def _check_swept(self) -> None:
        tree, named = self.world.tree, self.world.manifest_watch.pages.named()
        there = {
            f"{PAGES}/{log_id}/{shard}/{rest}"
            for log_id in tree.children(PAGES)
            for shard in tree.children(f"{PAGES}/{log_id}")
            for rest in tree.children(f"{PAGES}/{log_id}/{shard}")
        }
        left = sorted(there - named)
        require(not left, "no page is left over", f"{left} are named by no manifest")


def _check_writable(manifest: LogManifest) -> None:
    if manifest.retired:
        raise LogBeingDeletedError(NAME)


def _of_some(change: Change) -> Callable[[LogManifest | None], LogManifest]:
    def edit(found: LogManifest | None) -> LogManifest:
        if found is None:
            raise NoSuchLogError(NAME)
        return change(found)

    return edit


def _edits(record: ManifestRecord) -> Callable[[Change], Awaitable[LogManifest]]:
    return lambda change: record.edit(_of_some(change))


def draw_pages_workload(rng: random.Random) -> tuple[Replication, int]:
    """Draw a shape and how many bookies the cluster has: nothing is written to them."""
    return Replication(1, 1, 1), 1
