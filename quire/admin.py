"""Administration of logs: rebuild a manifest, delete garbage, ingest ledgers and show the jobs that
do, offload segments, keep an Iceberg table.

    deleted = await quire.admin.gc(client)

Every function takes a client first. `quire.sync.admin` has the blocking twins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from quire.checked import given_or_default
from quire.client import Client
from quire.entry import LedgerId
from quire.extras import needed_for
from quire.log.maintenance.ingest import Ingest, drop_silent_jobs
from quire.log.maintenance.job_info import JobInfo, LogJobs, PartInfo
from quire.log.maintenance.parts import write_part
from quire.log.manifest.cold_files import ColdFile
from quire.log.manifest.info import LogInfo, info_of
from quire.log.manifest.jobs import Job
from quire.log.manifest.options import LogOptions
from quire.log.records.keyring import Keyring
from quire.service.snapshots import gc_snapshots
from quire.table.values import TableTarget, TableUpdate

__all__ = [
    "Garbage",
    "IngestJob",
    "JobInfo",
    "LogJobs",
    "PartInfo",
    "TableUpdate",
    "gc",
    "ingest",
    "jobs",
    "offload",
    "rebuild",
    "update_table",
]


@dataclass(frozen=True, slots=True)
class Garbage:
    """The deletions of `gc`, and the ledgers that it kept.

    `ledgers` and `files` (URIs) are deleted. `kept` has, by log, closed ledgers with records of
    logs without a manifest: if it is lost, `rebuild` recreates it from them. `parts` has, by
    log, the deleted ledgers of silent jobs.
    """

    ledgers: Sequence[LedgerId]
    files: Sequence[str]
    kept: Mapping[str, Sequence[LedgerId]]
    parts: Mapping[str, Sequence[LedgerId]] = field(default_factory=dict)


async def rebuild(
    client: Client, name: str, *, password: bytes = b"", log_id: str | None = None
) -> LogInfo:
    """Recreate the manifest of a log that lost it, from the labels of its ledgers.

    Args:
        client: a client of the cluster.
        name: the log's name.
        password: the log's password.
        log_id: the id of the log, if ledgers of several logs of the name are left.

    Returns:
        The log. If no record is left, it is a new log of the same name.

    Raises:
        ManifestExistsError: the log has its manifest.
        NoSuchLogError: no ledger is labelled with the name.
        ConflictError: another client deleted the new manifest at once.
        UnauthorizedError: the password is wrong.

    Cancellation: the manifest may exist afterwards.

    Guarantees: a living leader is deposed. The new epoch is above every earlier one. Trim points
        inside a segment, options and the memory of jobs are lost (docs/protocol.md, "Logs").
    """
    return info_of(await client._logs.rebuild(name, password=password, log_id=log_id))


async def gc(client: Client, *, jobs_older_than: float | None = None) -> Garbage:
    """Delete ledgers, files and snapshots that no record names or can name later.

    Args:
        client: a client of the cluster.
        jobs_older_than: also delete the parts of jobs that began none for so many seconds. None
            keeps them: a job that runs long and a job that died look alike.

    Returns:
        What was deleted, and ledgers with records that were kept although no manifest lists them.

    Raises:
        InvalidRequestError: `jobs_older_than` is negative or not a number.
        ConfigurationError: a log has cold segments, and pyarrow is missing.
        ColdTierError: the file system of a tier does not answer. All others are done.

    Cancellation: some garbage stays until the next call.

    Guarantees: nothing is deleted that a leader, a job or an offload under way can still use, but
        for the parts of jobs that `jobs_older_than` names. Such a job fails when it ingests
        (`NoSuchLedgerError`), and the log has nothing of it.
    """
    logs = client._logs
    parts = await drop_silent_jobs(client._store, logs.ingest, jobs_older_than)
    ledgers = [*await logs.gc(), *await gc_snapshots(client._store, client._catalog)]
    return Garbage(ledgers, await logs.gc_files(), await logs.unlisted(), parts)


async def jobs(client: Client, name: str) -> LogJobs:
    """Return the jobs of a log: their parts, and how far the log has come.

    Args:
        client: a client of the cluster.
        name: the log's name. It need not exist yet if a job is writing for it.

    Returns:
        The remembered jobs and those with parts, by name.

    Raises:
        NoSuchLogError: the log does not exist, and no job writes for it.
        StoreUnavailableError: the metadata store does not answer.

    Cancellation: ends the call only: nothing is changed.

    Guarantees: the log had not ingested the parts that are shown.
    """
    found = await client._logs.ingest(name).survey()
    if not found.jobs:
        await client._logs.find(name)
    return found


def ingest(client: Client, name: str, job: str) -> IngestJob:
    """Return a job that writes ledgers outside a log and then appends them to it, all or none.

    Args:
        client: a client of the cluster.
        name: the log's name. The log is created with the first ingest if it does not exist.
        job: a name for the work. The log remembers it, so that a repetition adds nothing.

    Returns:
        The job. Any number of processes may use the same one.
    """
    return IngestJob(client._logs.ingest(name), job)


async def offload(
    client: Client,
    name: str,
    target: str,
    *,
    password: bytes = b"",
    keep_ledgers: bool = False,
) -> Sequence[str]:
    """Move the closed segments of a log into Parquet files, one after another.

    `quire.spark` moves them in parallel. Readers find the records in either place.

    Args:
        client: a client of the cluster.
        name: the log's name.
        target: a directory: a path, or a URI (`file:///…`, `s3://bucket/…`). Every reader of the
            log must reach it.
        password: the log's password.
        keep_ledgers: leave the ledgers on the bookies until an offload without it.

    Returns:
        The URIs of the files that the log now reads.

    Raises:
        NoSuchLogError: the log does not exist.
        ConfigurationError: `target` cannot be used, or pyarrow is missing.
        ColdTierError: the file system does not answer; or the file of a ledger that an earlier
            offload kept is missing or damaged, after all other segments are moved. Put the file
            back, then offload again.
        LogFullError: the log's record has no space for the names of the files.
        CorruptStorageError: a file does not give back what was written.

    Cancellation: the segment under way stays where it was. A repetition continues.

    Guarantees: every record stays readable at each moment. A ledger is deleted only after its file
        was written, read back and named. The file of a ledger that an earlier offload kept is read
        to its end first (docs/protocol.md, "Logs").
    """
    work = client._logs.offload(name)
    tier, segments = await work.begin(target)
    moved: list[str] = []
    for segment in segments:
        file: ColdFile = await work.write(segment, tier, password=password)
        await work.commit({segment.number: file})
        moved += [file.uri for each in await work.find([segment.number]) if each.cold == file]
        if not keep_ledgers:
            await work.release([file])
    if not keep_ledgers:
        await work.release()  # and of earlier runs
    return moved


async def update_table(
    client: Client,
    name: str,
    table: str,
    *,
    catalog: str | None = None,
    properties: Mapping[str, str] | None = None,
    password: bytes = b"",
    keyring: Keyring | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> TableUpdate:
    """Bring an Apache Iceberg table up to date with a log.

    Args:
        client: a client of the cluster.
        name: the log's name.
        table: the table with its namespace, as in `"sales.orders"`. It is created if it does not
            exist.
        catalog: the name of the catalog in pyiceberg's configuration; None for its default.
        properties: of the catalog, as pyiceberg names them (`uri`, `warehouse`, …); they come
            before those of the configuration.
        password: the log's password.
        keyring: the keys of an encrypted log. The table has its records in plain text.
        on_progress: called after each commit with records added, and how many there will be.

    Returns:
        The offsets that the table has, and how many records were added.

    Raises:
        NoSuchLogError: the log does not exist.
        LogReplacedError: the log was deleted and recreated during the call.
        ConfigurationError: the catalog cannot be opened; or the table has records of another log,
            or records that this log lost; or pyiceberg is missing.
        TableError: the catalog or the file system of the table does not answer.
        UnreadableError, DecryptionError: records cannot be read.

    Cancellation: ends after the commit under way. A repetition continues.

    Guarantees: each snapshot of the table has every record of the log from one offset to another
        once, in the order of their offsets. The last one has all that were confirmed at the call,
        and none that was trimmed. Calls may be killed, and may run at the same time.
    """
    with needed_for("a table", "iceberg"):
        from quire.table.update import ScannedLog, bring_up
    target = TableTarget(table, catalog, dict(properties or {}))
    return await bring_up(ScannedLog(client, name, password, keyring), target, on_progress)


class IngestJob:
    """Ledgers that are written outside a log, and become its next segments. See `ingest`."""

    def __init__(self, log: Ingest, job: str) -> None:
        self._log = log
        self._job = job

    @property
    def name(self) -> str:
        """The job's name."""
        return self._job

    def __repr__(self) -> str:
        return f"<IngestJob {self._job!r}>"

    async def write_part(
        self, records: Iterable[bytes], options: LogOptions | None = None
    ) -> LedgerId:
        """Write records into a new ledger of this job, and close it.

        Args:
            records: the payloads, in order.
            options: batches, compression, password and keyring; None for the defaults. Options that
                are stored in the log take precedence.

        Returns:
            The ledger's id, for `ingest`.

        Raises:
            NotEnoughBookiesError: fewer bookies than the ensemble are writable.
            LogFullError: the log takes no more segments.
            EntryTooLargeError: a record is too large.

        Cancellation: the ledger stays unused until `drop`, or until the next `ingest` of the job.

        Guarantees: the ledger and its registration are one change, so no part is lost track of.
        """
        given = given_or_default(options, LogOptions)
        return await write_part(self._log, self._job, records, given)

    async def ingest(
        self,
        parts: Sequence[LedgerId],
        *,
        sequence: int = 0,
        after: int | None = None,
        password: bytes = b"",
    ) -> LogInfo:
        """Append parts to the log, in this order, and delete the job's other ledgers.

        Args:
            parts: ids from `write_part`.
            sequence: the number of this piece of work; it grows within a job.
            after: the sequence that the job must have reached so far; None to skip the check.
            password: the log's password.

        Returns:
            The log as it then is.

        Raises:
            OvertakenError: the job has reached another sequence than `after`.
            ForgottenJobError: the log has forgotten the job.
            TooManyJobsError: the log cannot remember another job yet.
            LogFullError, LogSealedError, LogBeingDeletedError: the log takes no segments.
            NoSuchLedgerError: another attempt of the job deleted a part.
            UnauthorizedError: the password is wrong.

        Cancellation: the parts may be in the log. A repetition is safe.

        Guarantees: all parts or none are added, once per sequence. A living leader is deposed
            (docs/protocol.md, "Ingest").
        """
        job = Job(self._job, sequence)
        done = await self._log.ingest(parts, job, remember=True, after=after, password=password)
        return info_of(done)

    async def has_done(self, sequence: int = 0) -> bool:
        """Return whether the log has this piece of work, or a later one.

        Args:
            sequence: the number of the work.

        Returns:
            True if the log has ingested `sequence`, or a later one of this job.

        Raises:
            NoSuchLogError: the log does not exist.
            ForgottenJobError: the log has forgotten the job.
            StoreUnavailableError: the metadata store does not answer.

        Cancellation: ends the call only: nothing is changed.
        """
        return await self._log.has_done(Job(self._job, sequence))

    async def drop(self) -> None:
        """Delete the job's ledgers that the log did not ingest.

        Raises:
            StoreUnavailableError, StoreOutcomeUnknownError: the metadata store does not answer.
                Call it again.

        Cancellation: some ledgers stay. A repetition continues.
        """
        await self._log.drop(self._job)
