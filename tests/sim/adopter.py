"""A job that writes ledgers beside a log and has the log adopt them, as Spark's writer does.

A piece of work is a few parts: ledgers that are created, written and closed by themselves, then
adopted in one change of the manifest, which deposes whoever leads. The adopter repeats the adoption
until it knows that it was done. What it gives up before is deleted, and nobody may ever read it.

Work that the log remembers is a stream's. Now and then the stream begins again: its checkpoint is
lost, or an older copy of itself. Then numbers that were used stand for other records, and the log
must say so: a call that returns would have these records passed over without a word.

In between, jobs of batches without records push others out of what the log remembers. One of them
is repeated with records: the log must refuse it or know it, since it cannot be new.
"""

from __future__ import annotations

import asyncio
import random
from itertools import count
from typing import Final

from quire.entry import LedgerId
from quire.errors import (
    ForgottenJobError,
    JobReusedError,
    LogFullError,
    NoSuchLedgerError,
    QuireError,
    TooManyJobsError,
)
from quire.ledger.writer import LedgerWriter
from quire.log.directory import LogDirectory
from quire.log.maintenance.ingest import Ingest
from quire.log.manifest.manifest import Job, LogManifest
from quire.log.manifest.options import LogOptions
from quire.log.records.batch import UNPLACED, encode_batch
from quire.log.records.encryption import Encryption
from quire.log.records.position import Position
from quire.log.records.txids import NO_TXID
from quire.log.segment_store.ledgers import facts_of
from tests.sim.clients import ClientMachine
from tests.sim.history import LogAppend, Outcome, Violation
from tests.sim.world import SimWorld

JOB: Final = "job"
QUERY: Final = "query"
RETRY_SECONDS: Final = 0.5
NAME: Final = "adopter"
"""Whose records they are; the process may only live once."""


class Adopter:
    """See the module."""

    def __init__(
        self, world: SimWorld, log: str, options: LogOptions, rng: random.Random, pieces: int
    ) -> None:
        self._world = world
        self._log = log
        self._options = options
        self._rng = rng
        self._pieces = pieces
        self._slips = world.rng("lost checkpoints")
        self._loads = world.rng("jobs of batches")
        self._loaded: list[str] = []
        """Names of jobs of batches that the log has remembered, the oldest first."""
        self._job = JOB

    async def run(self, client: ClientMachine, directory: LogDirectory) -> None:
        """Do all pieces of work, one after the other."""
        ingest = directory.ingest(self._log)
        for sequence in range(1, self._pieces + 1):
            appends: dict[LedgerId, list[LogAppend]] = {}
            try:
                for part in range(self._rng.choice([1, 1, 2])):
                    await self._write_part(ingest, f"{sequence}.{part}", appends)
            except QuireError as error:
                self._world.say(client.name, f"gives piece {sequence} up: {error!r}")
                for append in (each for part in appends.values() for each in part):
                    append.outcome = Outcome.FAILED
                await client.insist(lambda: ingest.drop(self._job))
                continue
            remember = self._rng.random() < 0.7
            is_known = await self._ingest_parts(client, ingest, sequence, appends, remember)
            if is_known and self._slips.random() < 0.3:
                await self._begin_again(client, ingest, sequence)
            if self._loads.random() < 0.5:
                await self._load(client, directory)

    async def _load(self, client: ClientMachine, directory: LogDirectory) -> None:
        """Have the log remember jobs of batches, few of them, and repeat the oldest."""
        ingest = directory.ingest(self._log)
        settings = {"jobs_max": str(self._loads.choice([1, 2, 3])), "jobs_seconds": "1e12"}
        try:
            await directory.set_options(self._log, settings)
            for _ in range(self._loads.choice([1, 3])):
                job = Job(f"load {len(self._loaded)}", 0)
                await ingest.ingest([], job, remember=True)
                self._loaded.append(job.name)
        except QuireError as error:
            self._world.say(client.name, f"does not load: {error!r}")
        else:
            await self._load_again(client, ingest, Job(self._loaded[0], 0))

    async def _load_again(self, client: ClientMachine, ingest: Ingest, job: Job) -> None:
        appends: dict[LedgerId, list[LogAppend]] = {}
        try:
            await self._write_part(ingest, f"{job.name}.again", appends)
            manifest = await ingest.ingest(list(appends), job, remember=True)
        except ForgottenJobError as error:
            self._world.note_fault("forgotten job refused")
            self._world.say(client.name, f"is refused: {error}")
        except QuireError as error:
            self._world.say(client.name, f"does not load again: {error!r}")
        else:
            flat = self._world.manifest_watch.flat(manifest)
            ingested = {each.ledger for each in flat.segments} & appends.keys()
            if ingested:
                raise Violation("a job is adopted once", f"{job} was adopted again: {ingested}")
        for append in (each for part in appends.values() for each in part):
            append.outcome = Outcome.FAILED
        await client.insist(lambda: ingest.drop(self._job))

    async def _begin_again(self, client: ClientMachine, ingest: Ingest, sequence: int) -> None:
        """Offer other records under a number that was used, or as another query."""
        job = self._slips.choice(
            [
                Job(self._job, 0, QUERY, "again"),
                Job(self._job, sequence, QUERY, "again"),
                Job(self._job, sequence + 1, "another query", "again"),
                Job(self._job, sequence),
            ]
        )
        appends: dict[LedgerId, list[LogAppend]] = {}
        while True:
            try:
                if not appends:
                    await self._write_part(ingest, f"{sequence}.again", appends)
                await ingest.ingest(list(appends), job, remember=True)
            except JobReusedError as error:
                self._world.note_fault("stream begun again")
                self._world.say(client.name, f"is told: {error}")
                break
            except LogFullError as error:
                self._world.say(client.name, f"does not begin again: {error}")
                break
            except QuireError as error:
                self._world.say(client.name, f"cannot begin again: {error!r}")
                await asyncio.sleep(RETRY_SECONDS)
            else:
                text = f"{job} came after another one, and its records were passed over"
                raise Violation("a stream loses no record without a word", text)
        for append in (each for part in appends.values() for each in part):
            append.outcome = Outcome.FAILED
        await client.insist(lambda: ingest.drop(self._job))

    async def _write_part(
        self, ingest: Ingest, name: str, appends: dict[LedgerId, list[LogAppend]]
    ) -> None:
        writer = await ingest.create_part(self._job, self._options)
        mine = appends[writer.ledger] = []
        try:
            await writer.append_many(self._entries(writer, name, mine))
            await writer.close()
        except BaseException:
            writer.abandon()
            raise

    def _entries(self, writer: LedgerWriter, name: str, mine: list[LogAppend]) -> list[bytes]:
        """Pack records into entries, as `quire/spark/writer.py` does."""
        encryption = Encryption.of(self._options.keyring, facts_of(writer._metadata))
        entries, offset = list[bytes](), 0
        for entry in range(self._rng.choice([1, 2, 5])):
            records = self._rng.choice([1, 3])
            payloads = tuple(f"adopted.{name}.{entry}.{slot}".encode() for slot in range(records))
            mine.append(self._world.log.offer(NAME, 0, payloads))
            batch = encode_batch(
                payloads,
                first_offset=UNPLACED.first_offset + offset,
                epoch=UNPLACED.epoch,
                timestamp_ms=UNPLACED.timestamp_ms,
            )
            offset += records
            sealed = batch if encryption is None else encryption.seal(batch, entry, NO_TXID)
            entries.append(sealed)
        return entries

    async def _ingest_parts(
        self,
        client: ClientMachine,
        ingest: Ingest,
        sequence: int,
        appends: dict[LedgerId, list[LogAppend]],
        remember: bool,
    ) -> bool:
        """Have parts adopted; True when the log then remembers the work."""
        job = Job(self._job, sequence, QUERY, f"{sequence}")
        tries = count()

        async def attempt() -> LogManifest | None:
            is_first = next(tries) == 0
            try:
                return await ingest.ingest(list(appends), job, remember=remember)
            except NoSuchLedgerError:
                if remember or is_first:
                    raise
                return None  # adopted and trimmed since, for all that anybody can tell
            except (LogFullError, ForgottenJobError, TooManyJobsError) as error:
                self._world.note_fault(f"adoption refused: {type(error).__name__}")
                self._world.say(client.name, f"gives its parts up: {error}")
                return None

        manifest = await client.insist(attempt)
        if manifest is None:
            await client.insist(lambda: ingest.drop(self._job))
            for append in (each for part in appends.values() for each in part):
                append.outcome = Outcome.UNKNOWN
            self._job = f"{JOB} after {sequence}"
            return False
        self._world.note_fault("parts adopted")
        self._world.say(client.name, f"has {sorted(appends)} adopted")
        for ledger, mine in appends.items():
            self._confirm(manifest, ledger, mine)
        return remember

    def _confirm(self, manifest: LogManifest, ledger: LedgerId, mine: list[LogAppend]) -> None:
        """Note where a part's records are now; they may have been trimmed already."""
        for segment in self._world.manifest_watch.flat(manifest).segments:
            if segment.ledger == ledger:
                for entry, append in enumerate(mine):
                    slots = range(len(append.payloads))
                    places = tuple(Position(segment.number, entry, slot) for slot in slots)
                    append.epoch = segment.epoch
                    self._world.log.place(append, places)
                    self._world.manifest_watch.confirm(self._log, places[-1])
