"""The manifest of the one log that a reader reads, which may not be there yet.

Which log of the name it is, is settled when the first manifest was seen: another one of that name
is an error then. A log that is being deleted is gone; one that is waited for is the next.
"""

from __future__ import annotations

from random import Random

from quire.aio.retry import retry
from quire.errors import ColdFileMissingError, LogReplacedError, NoSuchLedgerError, NoSuchLogError
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.manifest.pages_at_hand import ask
from quire.log.manifest.record import ManifestRecord
from quire.log.reading.search import look


class ManifestReader:
    """Reads a log's manifest again and again. `patience`: seconds for which metadata out of reach
    is tried, None for ever. With `is_awaited` a log that is not there is waited for, unless
    `log_id` says which log is meant.
    """

    def __init__(
        self,
        record: ManifestRecord,
        rng: Random,
        *,
        log_id: str | None,
        is_awaited: bool,
        patience: float | None,
    ) -> None:
        self.log_id = log_id
        self._record = record
        self._rng = rng
        self._is_awaited = is_awaited
        self._patience = patience

    async def read(self) -> tuple[LogManifest, int]:
        """Return manifest and version. Raises `NoSuchLogError`, `LogReplacedError`, and the store's
        errors when patience is over.
        """
        while True:
            manifest, version = await retry(self._record.find, self._rng, timeout=self._patience)
            if manifest is not None and version is not None:
                if self.log_id not in (None, manifest.log_id):
                    raise LogReplacedError(self._record.name)
                if not manifest.retired:
                    self.log_id = manifest.log_id
                    return manifest, version
            if self.log_id is not None or not self._is_awaited:
                raise NoSuchLogError(self._record.name)
            await self.wait(version)

    async def wait(self, version: int | None) -> None:
        """Return when the manifest may no longer be at `version` (None: may exist)."""
        await retry(lambda: self._record.wait(version), self._rng, timeout=self._patience)

    async def find_missing(self, error: NoSuchLedgerError) -> Segment | None:
        """Return the segment whose ledger, or file, is not where the log says; None when the log
        does not say so any more: it was trimmed away or moved, or it stayed empty.
        """
        return await look(self._read_one, lambda manifest: _find_missing(manifest, error))

    async def _read_one(self) -> LogManifest:
        return (await self.read())[0]


async def _find_missing(manifest: LogManifest, error: NoSuchLedgerError) -> Segment | None:
    for segment in await ask(manifest, lambda: manifest.with_ledger(error.ledger)):
        if isinstance(error, ColdFileMissingError):
            if segment.cold is not None and segment.cold.uri == error.uri:
                return segment
        elif segment.is_hot:
            return segment
    return None
