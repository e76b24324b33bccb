"""The errors of consumers and relays of SQL databases. Their tree is in `quire.errors`."""

from __future__ import annotations

from quire.errors.base import ConflictError, InvalidRequestError, NotFoundError


class PositionMovedError(ConflictError):
    """Another process moved a consumer's or a relay's place; this transaction wrote nothing."""

    def __init__(self, name: str, log: str, expected: str, found: str) -> None:
        super().__init__(
            f"{name!r} of log {log!r} is at {found}, not at {expected}: another process went on "
            "from there, and nothing was written"
        )
        self.name = name
        self.log = log
        self.expected = expected
        self.found = found


class RecordsMissingError(NotFoundError):
    """Records that a consumer has not seen have left the log; nothing was written."""

    def __init__(self, consumer: str, log: str, next_offset: int, first: str) -> None:
        super().__init__(
            f"consumer {consumer!r} needs offset {next_offset} of log {log!r}, and the first "
            f"record left is {first}: they were trimmed or lost. Nothing was written; to go on "
            "with the records that are left, give fail_on_data_loss=False"
        )
        self.consumer = consumer
        self.log = log
        self.next_offset = next_offset
        self.first = first


class TransactionEndedError(InvalidRequestError):
    """A function that works inside a transaction of quire ended it."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} ended its transaction, so its effects and the position may be apart: leave "
            "commit, rollback and executescript out of it"
        )
        self.what = what


class OutboxRowError(InvalidRequestError):
    """A row of an outbox cannot be a record; neither it nor a later row was appended."""

    def __init__(self, sequence: int, reason: str) -> None:
        super().__init__(
            f"the outbox row of sequence {sequence} cannot be a record: {reason}. Correct or "
            "delete the row; the relay waits with the rows after it"
        )
        self.sequence = sequence
        self.reason = reason


class OutboxSkippedError(InvalidRequestError):
    """A row of an outbox has no number, or one that was used before: no relay would send it."""

    def __init__(self, table: str, row: int, sequence: int | None, sent: int) -> None:
        why = (
            "has no sequence: it was inserted without the outbox's trigger"
            if sequence is None
            else f"has the sequence {sequence}, and those up to {sent} were sent: the sequence was "
            "set back"
        )
        super().__init__(
            f"row {row} of {table} {why}. Insert such rows again and delete them here, "
            "or give them new sequences; after the table was made anew, delete the relay's row in "
            "quire_relays instead"
        )
        self.table = table
        self.row = row
        self.sequence = sequence
        self.sent = sent
