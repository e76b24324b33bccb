"""Blocking twin of a log's adoption."""

from __future__ import annotations

from collections.abc import Sequence

from quire.entry import LedgerId
from quire.log.maintenance.ingest import Adoption
from quire.log.manifest.manifest import Job, LogManifest
from quire.log.manifest.options import LogOptions
from quire.sync.ledgers import SyncLedgerWriter
from quire.sync.portal import Portal


class SyncAdoption:
    """Blocking twin of `Adoption`."""

    def __init__(self, portal: Portal, adoption: Adoption) -> None:
        self._portal = portal
        self._adoption = adoption

    def create_part(self, job: str, options: LogOptions) -> SyncLedgerWriter:
        """See `Adoption.create_part`."""
        work = self._adoption.create_part(job, options)
        return SyncLedgerWriter(self._portal, self._portal.call(work))

    def adopt(
        self,
        parts: Sequence[LedgerId],
        job: Job,
        *,
        remember: bool,
        after: int | None = None,
        password: bytes = b"",
    ) -> LogManifest:
        """See `Adoption.adopt`."""
        work = self._adoption.adopt(parts, job, remember=remember, after=after, password=password)
        return self._portal.call(work)

    def has_done(self, job: Job) -> bool:
        """See `Adoption.has_done`."""
        return self._portal.call(self._adoption.has_done(job))

    def jobs(self) -> list[str]:
        """See `Adoption.jobs`."""
        return self._portal.call(self._adoption.jobs())

    def drop(self, job: str) -> None:
        """See `Adoption.drop`."""
        self._portal.call(self._adoption.drop(job))
