"""Work whose ledgers a log adopts, and whether work is what the log remembers under its name.

A job of batches is known by its name and its sequence. A stream counts its batches from 0 whenever
it begins with a new checkpoint, so for a stream this is not enough: the log also remembers which
query the last batch came from, and a digest of its records. Then a batch that is repeated after a
hidden outcome is told from another batch with the same number.

Pure: no clock and no I/O. Source: docs/spark.md, "Writing: whole jobs or nothing".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from quire.log.errors import JobReusedError

JOBS_MAX: Final = 1000
"""Jobs that a log remembers: some 40 bytes each, and some 150 for a stream."""


class Job(NamedTuple):
    """Work whose ledgers a log adopts; the sequence grows from one piece of it to the next."""

    name: str
    sequence: int
    query: str = ""
    """Of a stream: the identity that its checkpoint has. Empty for a job of batches."""
    content: str = ""
    """Of a stream: a digest of the records of this batch, in any order."""

    def row(self) -> list[Any]:
        """The job as a manifest's record holds it."""
        return list(self) if self.query else [self.name, self.sequence]


def remember(jobs: Iterable[Job], work: Job) -> tuple[Job, ...]:
    """What a log remembers once work is adopted, the longest silent job first.

    Jobs beyond `JOBS_MAX` are forgotten: jobs of batches before streams, because a stream that is
    forgotten would have a repeated batch adopted twice.
    """
    others = [each for each in jobs if each.name != work.name]
    if len(others) >= JOBS_MAX:
        others.remove(next((each for each in others if not each.query), others[0]))
    return (*others, work)


def check_continues(log: str, found: Job | None, work: Job) -> None:
    """Raise `JobReusedError` unless work is new, or is what the log remembers of its job.

    Args:
        log: name of the log, for the error.
        found: what the log remembers under the name of the job, None for nothing.
        work: what a process wants adopted.

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
