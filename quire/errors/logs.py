"""The errors of logs, of their files, and of jobs over logs. Their tree is in `quire.errors`."""

from __future__ import annotations

from quire.errors.base import (
    ConflictError,
    InvalidRequestError,
    NoSuchLedgerError,
    QuireError,
    RetryError,
    SequenceConflictError,
)


class LogExistsError(ConflictError):
    """A log was to be created, and there is one of that name; nothing was changed."""

    def __init__(self, log: str) -> None:
        super().__init__(f"log {log!r} exists: open it, or delete it before it is created anew")
        self.log = log


class ManifestExistsError(ConflictError):
    """A manifest that is there was to be rebuilt; nothing was changed."""

    def __init__(self, log: str) -> None:
        super().__init__(f"log {log!r} has its manifest: only a lost one can be rebuilt")
        self.log = log


class OvertakenError(ConflictError):
    """A job has come to another place than the one its work follows: begin it again from there."""

    def __init__(self, log: str, job: str, after: int, found: int) -> None:
        super().__init__(
            f"job {job!r} of log {log!r} has come to sequence {found}, not {after}: another "
            "attempt was quicker, and nothing was added; start it again"
        )
        self.log = log
        self.job = job
        self.after = after
        self.found = found


class ForgottenJobError(ConflictError):
    """The log has forgotten a job, so its work may be in the log; nothing was written."""

    def __init__(self, log: str, job: str) -> None:
        super().__init__(
            f"work of job {job!r} may be in log {log!r}: the log has forgotten what this job did; "
            "nothing was written. Look in the log for the records, then go on under a new job "
            "name (option jobs_max: how many jobs are remembered)"
        )
        self.log = log
        self.job = job


class TooManyJobsError(ConflictError):
    """A new job was refused, because an old one would be forgotten too early; nothing was
    written.
    """

    def __init__(self, log: str, job: str, known: int, seconds: float) -> None:
        super().__init__(
            f"job {job!r} is refused: log {log!r} knows {known} jobs already, and forgot none of "
            f"them {seconds:g} s ago; use one name with a growing sequence, or raise jobs_max, or "
            "lower jobs_seconds"
        )
        self.log = log
        self.job = job
        self.known = known
        self.seconds = seconds


class JobReusedError(InvalidRequestError):
    """A stream writes under a job that the log knows from another stream; nothing was written."""

    def __init__(self, log: str, job: str, reason: str) -> None:
        super().__init__(
            f"job {job!r} of log {log!r} cannot go on: {reason}. Nothing was written. Compare "
            "the end of the log with the place of the query, and start it with another job"
        )
        self.log = log
        self.job = job
        self.reason = reason


class TxidOrderError(ConflictError):
    """A txid is below the log's last; nothing was written."""

    def __init__(self, log: str, txid: int, last: int) -> None:
        super().__init__(
            f"txid {txid} cannot follow txid {last} in log {log!r}: ids never decrease along a log"
        )
        self.log = log
        self.txid = txid
        self.last = last


class LogFullError(RetryError):
    """A log's manifest is too large for the requested change; nothing was changed."""

    def __init__(self, log: str, size: int, limit: int, segments: int) -> None:
        super().__init__(
            f"manifest of log {log!r} has {size} bytes with {segments} segments, and may grow "
            f"only up to {limit}: trim the log (`quire log trim {log}`), set retention, or make "
            "segments larger (roll_bytes, roll_entries, roll_seconds)"
        )
        self.log = log
        self.size = size
        self.limit = limit
        self.segments = segments


class LogBeingDeletedError(RetryError):
    """A log is to be written while it is deleted, or after a deletion that was cut short."""

    def __init__(self, log: str) -> None:
        super().__init__(
            f"log {log!r} is being deleted: wait; if the deletion was cut short, repeat it "
            f"(`quire log delete {log}`), then the name is free"
        )
        self.log = log


class DecryptionError(InvalidRequestError):
    """An encrypted batch does not open with the keys that were given. Keys are never named here."""

    def __init__(self, log: str, position: str, key_id: str, reason: str) -> None:
        super().__init__(f"log {log!r} at {position} is encrypted with key {key_id!r}: {reason}")
        self.log = log
        self.position = position
        self.key_id = key_id
        self.reason = reason


class MissingKeyError(DecryptionError):
    """The key of an encrypted batch is not among the given keys, or none were given."""


class ForgottenProducerError(SequenceConflictError):
    """The log has forgotten a producer, so its number may be in the log; nothing was written.

    `sequence` is the number that was given, −1 if none was.
    """

    def __init__(self, producer: str, sequence: int = -1) -> None:
        what = f"sequence {sequence}" if sequence >= 0 else "the last sequence"
        ConflictError.__init__(
            self,
            f"{what} of producer {producer!r} may be in the log: the log has "
            "forgotten this producer's numbers; look in the log for the record, then go on under "
            "a new producer name (option producers_max: how many producers are remembered)",
        )
        self.producer = producer
        self.sequence = sequence
        self.last = sequence


class TooManyProducersError(ConflictError):
    """A new producer was refused, because an old one would be forgotten too early; nothing was
    written.
    """

    def __init__(self, producer: str, known: int, seconds: float) -> None:
        super().__init__(
            f"producer {producer!r} is refused: the log knows {known} producers already, and "
            f"none was forgotten {seconds:g} s ago; use fewer names, or raise producers_max, or "
            "lower producers_seconds"
        )
        self.producer = producer
        self.known = known


class ColdFileMissingError(NoSuchLedgerError):
    """A file that holds a segment is not where the manifest says."""

    def __init__(self, ledger: int, uri: str) -> None:
        super().__init__(ledger)
        self.args = (f"{uri} is missing: it holds the entries of ledger {ledger}",)
        self.uri = uri


class ColdTierError(RetryError):
    """The file system of a tier does not answer, or refuses."""

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(f"cold tier {uri} is unavailable: {reason}")
        self.uri = uri
        self.reason = reason


class TableError(RetryError):
    """The catalog or the file system of an Iceberg table does not answer, or refuses."""

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(
            f"table {table} is unavailable: {reason}; the same call finds what was committed, and "
            "goes on"
        )
        self.table = table
        self.reason = reason


class SparkFailedError(QuireError):
    """Spark itself failed: its master, its Java, or an expression that was given to it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Spark failed: {reason}")
        self.reason = reason


class BehindError(RetryError):
    """The end of a log that bookies know now is before an end that other bookies knew."""

    def __init__(self, log: str, before: int, now: int) -> None:
        super().__init__(
            f"log {log!r} was confirmed up to offset {before - 1}, and the bookies that answer now "
            f"know of {now - 1}: try again when all of them are up, unless it is another log of "
            "this name"
        )
        self.log = log
        self.before = before
        self.now = now
