"""Errors that only a log raises; their places are in the tree of `quire.errors`.

ConflictError
├── LogExistsError             a log of that name exists; nothing was created
├── ManifestExistsError        only a lost manifest is recreated, and this one exists
├── ForgottenJobError          the log no longer remembers this job's work; nothing written
├── OvertakenError             a job has not reached its preceding batch; nothing written
├── SequenceConflictError
│   └── ForgottenProducerError     the log has forgotten a producer's numbers; nothing written
├── TooManyJobsError           the log cannot remember another job yet; nothing written
├── TooManyProducersError      the log cannot remember another producer yet; nothing written
└── TxidOrderError      the txid is below the log's last; nothing written
RetryError
├── LogFullError               the log's manifest takes no more segments; trim the log
└── LogBeingDeletedError       a deletion has begun; the log rejects writes until it is over
InvalidRequestError
├── JobReusedError             a stream's batch differs from the remembered one of its job
└── DecryptionError            an encrypted batch does not open with the given keys
    └── MissingKeyError        its key is not among them
"""

from __future__ import annotations

from quire.errors import ConflictError, InvalidRequestError, RetryError, SequenceConflictError


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
            "name (setting jobs_max: how many jobs are remembered)"
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
    """The log has forgotten a producer, so its number may be in the log; nothing was written."""

    def __init__(self, producer: str, sequence: int) -> None:
        ConflictError.__init__(
            self,
            f"sequence {sequence} of producer {producer!r} may be in the log: the log has "
            "forgotten this producer's numbers; look in the log for the record, then go on under "
            "a new producer name (setting producers_max: how many producers are remembered)",
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
