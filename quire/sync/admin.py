"""Blocking twins of `quire.admin`: rebuild, gc, jobs, ingest, offload and update_table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from quire import admin
from quire.admin import Garbage, IngestJob, JobInfo, LogJobs, PartInfo, TableUpdate
from quire.entry import LedgerId
from quire.log.manifest.info import LogInfo
from quire.log.manifest.options import LogOptions
from quire.log.records.keyring import Keyring
from quire.sync.client import SyncClient
from quire.sync.portal import Portal
from quire.sync.twins import twin_of, twin_of_function

__all__ = [
    "Garbage",
    "JobInfo",
    "LogJobs",
    "PartInfo",
    "SyncIngestJob",
    "TableUpdate",
    "gc",
    "ingest",
    "jobs",
    "offload",
    "rebuild",
    "update_table",
]


@twin_of_function(admin.rebuild)
def rebuild(
    client: SyncClient, name: str, *, password: bytes = b"", log_id: str | None = None
) -> LogInfo:
    """See `quire.admin.rebuild`."""
    return client._portal.call(
        admin.rebuild(client._client, name, password=password, log_id=log_id)
    )


@twin_of_function(admin.gc)
def gc(client: SyncClient, *, jobs_older_than: float | None = None) -> Garbage:
    """See `quire.admin.gc`."""
    return client._portal.call(admin.gc(client._client, jobs_older_than=jobs_older_than))


@twin_of_function(admin.jobs)
def jobs(client: SyncClient, name: str) -> LogJobs:
    """See `quire.admin.jobs`."""
    return client._portal.call(admin.jobs(client._client, name))


@twin_of_function(admin.ingest)
def ingest(client: SyncClient, name: str, job: str) -> SyncIngestJob:
    """See `quire.admin.ingest`."""
    return SyncIngestJob(client._portal, admin.ingest(client._client, name, job))


@twin_of_function(admin.offload)
def offload(
    client: SyncClient,
    name: str,
    target: str,
    *,
    password: bytes = b"",
    keep_ledgers: bool = False,
) -> Sequence[str]:
    """See `quire.admin.offload`."""
    work = admin.offload(client._client, name, target, password=password, keep_ledgers=keep_ledgers)
    return client._portal.call(work)


@twin_of_function(admin.update_table)
def update_table(
    client: SyncClient,
    name: str,
    table: str,
    *,
    catalog: str | None = None,
    properties: Mapping[str, str] | None = None,
    password: bytes = b"",
    keyring: Keyring | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> TableUpdate:
    """See `quire.admin.update_table`."""
    work = admin.update_table(
        client._client,
        name,
        table,
        catalog=catalog,
        properties=properties,
        password=password,
        keyring=keyring,
        on_progress=on_progress,
    )
    return client._portal.call(work)


@twin_of(IngestJob, "_job")
class SyncIngestJob:
    """Blocking twin of `IngestJob`."""

    def __init__(self, portal: Portal, job: IngestJob) -> None:
        self._portal = portal
        self._job = job

    @property
    def name(self) -> str:
        """See `IngestJob.name`."""
        return self._job.name

    def write_part(self, records: Iterable[bytes], options: LogOptions | None = None) -> LedgerId:
        """See `IngestJob.write_part`."""
        return self._portal.call(self._job.write_part(records, options))

    def ingest(
        self,
        parts: Sequence[LedgerId],
        *,
        sequence: int = 0,
        after: int | None = None,
        password: bytes = b"",
    ) -> LogInfo:
        """See `IngestJob.ingest`."""
        work = self._job.ingest(parts, sequence=sequence, after=after, password=password)
        return self._portal.call(work)

    def has_done(self, sequence: int = 0) -> bool:
        """See `IngestJob.has_done`."""
        return self._portal.call(self._job.has_done(sequence))

    def drop(self) -> None:
        """See `IngestJob.drop`."""
        self._portal.call(self._job.drop())
