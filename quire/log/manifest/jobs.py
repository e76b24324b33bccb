"""Work with ledgers that a log ingests, and whether work equals the work remembered under its name.

A job of batches is known by its name and its sequence. A stream counts its batches from 0 whenever
it begins with a new checkpoint, so for a stream this is not enough: the log also remembers which
query the last batch came from, and a digest of its records. Then a batch that is repeated after a
hidden outcome is told from another batch with the same number.

A log remembers the last `jobs_max` jobs. Beyond that the longest silent job is forgotten, and a
fingerprint of its name stays, with the hour when the log forgot it. All work of a forgotten job
is refused: the log cannot tell new work from work that is repeated. At `FORGOTTEN_MAX` fingerprints
the oldest leaves, if it is older than `jobs_seconds`; otherwise a new job is refused.

Pure: no clock and no I/O. Source: docs/spark.md, "Writing: whole jobs or nothing".
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Any, Final, NamedTuple

from quire.errors import ForgottenJobError, JobReusedError, TooManyJobsError
from quire.fields import NOTHING, Unknown, joined_row, split_row

JOBS_MAX: Final = 1000
"""Jobs that a log remembers by default: some 40 bytes each, and some 150 for a stream."""

JOBS_LIMIT: Final = 4000
"""Largest `jobs_max`: 160 KB of a manifest, and 600 KB if all of them are streams."""

FORGOTTEN_MAX: Final = 10_000
"""Fingerprints of forgotten jobs: 80 KB of a manifest, and a job a minute for a week."""

JOBS_SECONDS: Final = 7 * 24 * 3600.0
"""The shortest life of a fingerprint, by default."""

_PRINT_BYTES: Final = 6
_PRINT_CHARS: Final = 8


class Job(NamedTuple):
    """Work with ledgers that a log ingests; the sequence grows from one piece of it to the next."""

    name: str
    sequence: int
    query: str = ""
    """A stream's identity, which its checkpoint has. Empty for a job of batches."""
    content: str = ""
    """A stream's digest of the records of this batch, in any order."""
    unknown: Unknown = NOTHING

    def row(self) -> list[Any]:
        """The job as a manifest's record holds it."""
        known = 4 if self.query else 2
        return joined_row(list(self[:known]), self.unknown)


def job_from_row(row: Sequence[Any]) -> Job:
    """Return the job of a row that `check_types` let pass."""
    known, unknown = split_row(row)
    return Job(*known)._replace(unknown=unknown)


class Limits(NamedTuple):
    """How much a log remembers of its jobs; settings of the log."""

    jobs_max: int = JOBS_MAX
    seconds: float = JOBS_SECONDS


class Forgotten(NamedTuple):
    """Jobs that a log forgot within one hour."""

    hour: int
    """Hours of the time that the log had counted (ages.py)."""
    prints: str
    """Their fingerprints, eight characters each, the oldest first."""


class Memory(NamedTuple):
    """The jobs that a log remembers, the longest silent job first."""

    jobs: tuple[Job, ...] = ()
    forgotten: tuple[Forgotten, ...] = ()

    def find(self, log: str, name: str) -> Job | None:
        """Return the remembered work of a job, None when it is new.

        Raises `ForgottenJobError`.
        """
        found = next((each for each in self.jobs if each.name == name), None)
        if found is None and self._has_forgotten(name):
            raise ForgottenJobError(log, name)
        return found

    def remember(self, log: str, work: Job, limits: Limits, counted_ms: int) -> Memory:
        """Return the memory of a log after it ingests work.

        Jobs of batches are forgotten before streams. `counted_ms` is the time that the log counted.
        Raises `TooManyJobsError` when a new job would make the log drop a fingerprint too early.
        """
        jobs = [each for each in self.jobs if each.name != work.name]
        earlier = next((each for each in self.jobs if each.name == work.name), work)
        is_new = len(jobs) == len(self.jobs)
        hour = counted_ms // 3_600_000
        # A later time comes from a wall clock or another count, and would keep its print for years.
        forgotten = [
            (min(each.hour, hour), name) for each in self.forgotten for name in _split(each.prints)
        ]
        while len(jobs) >= limits.jobs_max:
            if len(forgotten) >= FORGOTTEN_MAX:
                if (hour - forgotten[0][0]) * 3600 < limits.seconds:
                    break
                del forgotten[0]
            gone = next((each for each in jobs if not each.query), jobs[0])
            jobs.remove(gone)
            forgotten.append((hour, fingerprint(gone.name)))
        if is_new and len(jobs) >= limits.jobs_max:
            raise TooManyJobsError(log, work.name, len(jobs) + len(forgotten), limits.seconds)
        work = work._replace(unknown=earlier.unknown)
        return Memory((*jobs, work), _grouped(forgotten))

    def _has_forgotten(self, name: str) -> bool:
        wanted = fingerprint(name)
        return any(wanted in _split(each.prints) for each in self.forgotten)


def fingerprint(name: str) -> str:
    """Return the 48 bits that stay of a forgotten job's name."""
    digest = blake2b(name.encode(), digest_size=_PRINT_BYTES).digest()
    return urlsafe_b64encode(digest).decode()


def forgotten_count(forgotten: Sequence[Forgotten]) -> int:
    """Return how many jobs fingerprints stand for."""
    return sum(len(_split(each.prints)) for each in forgotten)


def _split(prints: str) -> list[str]:
    return [prints[at : at + _PRINT_CHARS] for at in range(0, len(prints), _PRINT_CHARS)]


def _grouped(forgotten: Sequence[tuple[int, str]]) -> tuple[Forgotten, ...]:
    return tuple(
        Forgotten(hour, "".join(name for _, name in group))
        for hour, group in groupby(forgotten, key=lambda each: each[0])
    )


def check_continues(log: str, found: Job | None, work: Job) -> None:
    """Raise `JobReusedError` unless work is new, or equals the remembered work of its job.

    Args:
        log: name of the log, for the error.
        found: the work remembered under the name of the job, None for nothing.
        work: the work to ingest.

    A later batch of the same query is new, an equal number with equal content is a repetition. A
    job without a query that is remembered (an older program wrote it) is followed by greater
    numbers alone. Jobs of batches may repeat any work.
    """
    if found is None or not (found.query or work.query):
        return
    if found.query and found.query != work.query:
        raise JobReusedError(
            log, work.name, "another query has this job: its checkpoint was lost, or two use a name"
        )
    if work.sequence < found.sequence:
        raise JobReusedError(
            log,
            work.name,
            f"batch {work.sequence} comes after batch {found.sequence}: "
            "the checkpoint is an older copy of itself, or a new one",
        )
    if work.sequence == found.sequence and work.content != found.content:
        raise JobReusedError(
            log,
            work.name,
            f"batch {work.sequence} was written with other records: the checkpoint is an older "
            "copy of itself or a new one, or the query gives other records when it is repeated",
        )
