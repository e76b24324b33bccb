"""The record of the jobs of a paged log: apart from its head, which every roll writes.

It is changed in one transaction with the head, so it belongs to the head that is read before it,
as long as a change of that version of the head succeeds.

Pure, but for `read_jobs`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from quire.errors import CorruptRecordError, NoSuchNodeError
from quire.fields import NOTHING, Unknown
from quire.log.manifest.jobs import Forgotten, Job, job_from_row
from quire.log.manifest.schema import JOBS_FIELDS, check_jobs_types
from quire.metastore.changes import Change, Create, Put
from quire.metastore.layout import log_jobs_path
from quire.metastore.record import RecordFormat
from quire.metastore.store import MetadataStore

FORMAT: Final = RecordFormat("log-jobs", JOBS_FIELDS)


class JobsRecord(NamedTuple):
    """The jobs of a log, as its record has them."""

    jobs: tuple[Job, ...] = ()
    forgotten: tuple[Forgotten, ...] = ()
    unknown: Unknown = NOTHING
    version: int | None = None
    """The version of the record, None when there was no record."""

    def encode(self, log_id: str) -> bytes:
        """Return the record."""
        body = {
            "log_id": log_id,
            "jobs": [each.row() for each in self.jobs],
            "forgotten_jobs": [list(each) for each in self.forgotten],
        }
        return FORMAT.encode(body, self.unknown)

    def change(self, log_id: str) -> Change:
        """Return the change that writes these jobs over those at the version."""
        path = log_jobs_path(log_id)
        if self.version is None:
            return Create(path, self.encode(log_id))
        return Put(path, self.encode(log_id), self.version)


def decode_jobs(path: str, data: bytes, log_id: str, version: int) -> JobsRecord:
    """Return the jobs of a record. Raises `CorruptRecordError`, naming the path."""
    _, body, unknown = FORMAT.decode(path, data)
    try:
        check_jobs_types(body)
        if body["log_id"] != log_id:
            raise ValueError(f"jobs of log {body['log_id']}")
        jobs = tuple(map(job_from_row, body["jobs"]))
        forgotten = tuple(Forgotten(*row) for row in body["forgotten_jobs"])
    except (TypeError, ValueError, KeyError) as error:
        raise CorruptRecordError(path, f"not the jobs of log {log_id}: {error}") from error
    return JobsRecord(jobs, forgotten, unknown, version)


async def read_jobs(store: MetadataStore, log_id: str) -> JobsRecord:
    """Return the jobs of a log. Raises `CorruptRecordError`, and the store's errors."""
    path = log_jobs_path(log_id)
    try:
        found = await store.get(path)
    except NoSuchNodeError:
        return JobsRecord()
    return decode_jobs(path, found.value, log_id, found.version)
