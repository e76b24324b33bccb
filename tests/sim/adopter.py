"""A job that writes ledgers beside a log and has the log adopt them, as Spark's writer does.

A piece of work is a few parts: ledgers that are created, written and closed by themselves, then
adopted in one change of the manifest, which deposes whoever leads. The adopter repeats the adoption
until it knows that it was done. What it gives up before is deleted, and nobody may ever read it.
"""

from __future__ import annotations

import random
from itertools import count
from typing import Final

from quire.entry import LedgerId
from quire.errors import NoSuchLedgerError, QuireError
from quire.ledger.writer import LedgerWriter
from quire.log.adoption import Adoption
from quire.log.batch import UNPLACED, encode_batch
from quire.log.directory import LogDirectory
from quire.log.encryption import Encryption
from quire.log.manifest import Job, LogManifest
from quire.log.options import LogOptions
from quire.log.position import Position
from quire.log.transactions import NO_TRANSACTION
from tests.sim.clients import ClientMachine
from tests.sim.history import LogAppend, Outcome
from tests.sim.world import SimWorld

JOB: Final = "job"
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

    async def run(self, client: ClientMachine, directory: LogDirectory) -> None:
        """Do all pieces of work, one after the other."""
        adoption = directory.adoption(self._log)
        for sequence in range(1, self._pieces + 1):
            appends: dict[LedgerId, list[LogAppend]] = {}
            try:
                for part in range(self._rng.choice([1, 1, 2])):
                    await self._write_part(adoption, f"{sequence}.{part}", appends)
            except QuireError as error:
                self._world.say(client.name, f"gives piece {sequence} up: {error!r}")
                for append in (each for part in appends.values() for each in part):
                    append.outcome = Outcome.FAILED
                await client.insist(lambda: adoption.drop(JOB))
                continue
            await self._adopt(client, adoption, sequence, appends)

    async def _write_part(
        self, adoption: Adoption, name: str, appends: dict[LedgerId, list[LogAppend]]
    ) -> None:
        writer = await adoption.create_part(JOB, self._options)
        mine = appends[writer.ledger] = []
        try:
            await writer.append_many(self._entries(writer, name, mine))
            await writer.close()
        except BaseException:
            writer.abandon()
            raise

    def _entries(self, writer: LedgerWriter, name: str, mine: list[LogAppend]) -> list[bytes]:
        """Pack records into entries, as `quire/spark/writer.py` does."""
        encryption = Encryption.of(self._options.keyring, writer.metadata)
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
            sealed = batch if encryption is None else encryption.seal(batch, entry, NO_TRANSACTION)
            entries.append(sealed)
        return entries

    async def _adopt(
        self,
        client: ClientMachine,
        adoption: Adoption,
        sequence: int,
        appends: dict[LedgerId, list[LogAppend]],
    ) -> None:
        job, remember = Job(JOB, sequence), self._rng.random() < 0.7
        tries = count()

        async def attempt() -> LogManifest | None:
            is_first = next(tries) == 0
            try:
                return await adoption.adopt(list(appends), job, remember=remember)
            except NoSuchLedgerError:
                if remember or is_first:
                    raise
                return None  # adopted and trimmed since, for all that anybody can tell

        manifest = await client.insist(attempt)
        if manifest is None:
            for append in (each for part in appends.values() for each in part):
                append.outcome = Outcome.UNKNOWN
            return
        self._world.note_fault("parts adopted")
        self._world.say(client.name, f"has {sorted(appends)} adopted")
        for ledger, mine in appends.items():
            self._confirm(manifest, ledger, mine)

    def _confirm(self, manifest: LogManifest, ledger: LedgerId, mine: list[LogAppend]) -> None:
        """Note where a part's records are now; they may have been trimmed already."""
        for segment in manifest.segments:
            if segment.ledger == ledger:
                for entry, append in enumerate(mine):
                    slots = range(len(append.payloads))
                    places = tuple(Position(segment.number, entry, slot) for slot in slots)
                    append.epoch = segment.epoch
                    self._world.log.confirm(append, places)
                    self._world.manifest_watch.confirm(self._log, places[-1])
