"""The jobs of a log as an operator sees them: their ledgers, and how far the log has come.

A job is known from the log's record, which remembers its last work, from its registered parts, or
from both. Parts stay registered until the log ingests them, or a gc deletes them. So a job with old
parts has died.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quire.entry import LedgerId


@dataclass(frozen=True, slots=True)
class PartInfo:
    """A ledger that a job wrote, and that the log has not ingested.

    `created_ms` is in Unix milliseconds. `bytes` is its length, None while it is open: the process
    that writes it still runs, or died.
    """

    ledger: LedgerId
    created_ms: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class JobInfo:
    """A job of a log.

    `sequence` is its last work in the log, None if the log remembers none. `query` is the identity
    of the stream, empty for a job of batches.
    """

    name: str
    sequence: int | None
    query: str
    parts: tuple[PartInfo, ...]

    @property
    def last_part_ms(self) -> int | None:
        """When the youngest part was created, in Unix milliseconds; None without parts."""
        return max((each.created_ms for each in self.parts), default=None)


@dataclass(frozen=True, slots=True)
class LogJobs:
    """The jobs of a log by name, and how many jobs it has forgotten but still refuses."""

    log: str
    jobs: Sequence[JobInfo]
    forgotten: int


def is_silent(job: JobInfo, since_ms: int) -> bool:
    """Return whether a job has parts, and began none at `since_ms` (Unix) or later."""
    last = job.last_part_ms
    return last is not None and last < since_ms
