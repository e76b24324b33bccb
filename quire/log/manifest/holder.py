"""The process that took a log over last, as it is written into the manifest at the takeover.

It is for operators. A later epoch without a holder (of a program that does not write it, of an
ingest, of a recovery) leaves the row of the epoch before: a row counts for its own epoch only.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from quire.fields import NOTHING, Unknown, joined_row, split_row


class Process(NamedTuple):
    """A process that may lead logs."""

    host: str
    pid: int

    def takes(self, epoch: int, now_ms: int) -> Holder:
        """Return the row of a takeover by this process."""
        return Holder(epoch, self.host, self.pid, now_ms)


class Holder(NamedTuple):
    """A takeover: its epoch, the host and id of the process, and when it was (Unix ms)."""

    epoch: int
    host: str
    pid: int
    since_ms: int
    unknown: Unknown = NOTHING

    def row(self) -> list[Any]:
        """The holder as a manifest's record has it."""
        return joined_row([self.epoch, self.host, self.pid, self.since_ms], self.unknown)


def holder_of_row(row: Sequence[Any]) -> Holder:
    """Return the holder of a row that `check_types` let pass."""
    known, unknown = split_row(row)
    return Holder(*known)._replace(unknown=unknown)
