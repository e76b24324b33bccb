"""Blocking twin of a log's ingest."""

from __future__ import annotations

from collections.abc import Sequence

from quire.entry import LedgerId
from quire.log.maintenance.ingest import Ingest
from quire.log.maintenance.job_info import LogJobs
from quire.log.manifest.manifest import Job, LogManifest
from quire.log.manifest.options import LogOptions
from quire.sync.ledgers import SyncLedgerWriter
from quire.sync.portal import Portal


class SyncIngest:
    """Blocking twin of `Ingest`."""

    def __init__(self, portal: Portal, ingest: Ingest) -> None:
        self._portal = portal
        self._ingest = ingest

    def create_part(self, job: str, options: LogOptions) -> SyncLedgerWriter:
        """See `Ingest.create_part`."""
        work = self._ingest.create_part(job, options)
        return SyncLedgerWriter(self._portal, self._portal.call(work))

    def ingest(
        self,
        parts: Sequence[LedgerId],
        job: Job,
        *,
        remember: bool,
        after: int | None = None,
        password: bytes = b"",
    ) -> LogManifest:
        """See `Ingest.ingest`."""
        work = self._ingest.ingest(parts, job, remember=remember, after=after, password=password)
        return self._portal.call(work)

    def check_attributes_allowed(self) -> None:
        """See `Ingest.check_attributes_allowed`."""
        self._portal.call(self._ingest.check_attributes_allowed())

    def has_done(self, job: Job) -> bool:
        """See `Ingest.has_done`."""
        return self._portal.call(self._ingest.has_done(job))

    def jobs(self) -> list[str]:
        """See `Ingest.jobs`."""
        return self._portal.call(self._ingest.jobs())

    def survey(self) -> LogJobs:
        """See `Ingest.survey`."""
        return self._portal.call(self._ingest.survey())

    def drop(self, job: str) -> list[LedgerId]:
        """See `Ingest.drop`."""
        return self._portal.call(self._ingest.drop(job))

    def drop_silent(self, seconds: float) -> list[LedgerId]:
        """See `Ingest.drop_silent`."""
        return self._portal.call(self._ingest.drop_silent(seconds))
