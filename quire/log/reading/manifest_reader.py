"""The manifest of the log that a reader reads; the log may not exist yet.

The first manifest that is seen decides which log of the name is read. Another log of that name
is an error afterwards. A log that is being deleted does not count: a reader that waits for a log
waits for the next one.
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
    """Reads a log's manifest repeatedly. `patience` is the time in seconds for which an
    unreachable store is retried; None: forever. With `is_awaited` it waits for a log that does
    not exist, unless `log_id` says which log is meant.
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
        """Return the segment whose ledger, or file, is missing where the log names it. None if
        the log no longer names it: the segment was trimmed or moved, or it stayed empty.
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
