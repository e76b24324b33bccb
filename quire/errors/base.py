"""The root of the error tree, the kinds of reaction, and the errors below logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

_KEPT: Final = "appends not acknowledged may or may not be kept"


class QuireError(Exception):
    """Root of every error quire raises on purpose. Can be pickled, as worker processes need."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[QuireError], args: tuple[Any, ...], fields: dict[str, Any]) -> QuireError:
    """An error as it was; its constructor wants the parts of the sentence, not the sentence."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


class RetryError(QuireError):
    """Nothing happened; the same call may succeed later."""


class BookieUnavailableError(RetryError):
    """A bookie did not answer, or not in time.

    For an add this says nothing about whether the bookie stored the run: the caller counts it as
    not acknowledged, never as not stored.
    """

    def __init__(self, bookie: str, reason: str) -> None:
        super().__init__(f"bookie {bookie} is unavailable: {reason}")
        self.bookie = bookie
        self.reason = reason


class ReadOnlyBookieError(RetryError):
    """A bookie takes no new entries; it still reads, fences and takes recovery adds."""

    def __init__(self, bookie: str, reason: str) -> None:
        super().__init__(f"bookie {bookie} is read-only: {reason}")
        self.bookie = bookie
        self.reason = reason


class NotEnoughBookiesError(RetryError):
    """Too few writable bookies to form or mend an ensemble.

    `unwritable` are bookies that were seen and take no new entries now: they are down, away, or
    short of space.
    """

    def __init__(self, needed: int, available: int, unwritable: int = 0) -> None:
        others = (
            f" ({unwritable} more take no new entries: `quire cluster health` says why)"
            if unwritable
            else ""
        )
        super().__init__(
            f"{needed} writable bookies are needed, {available} can be used{others}: "
            "start more bookies or ask for a smaller ensemble"
        )
        self.needed = needed
        self.available = available
        self.unwritable = unwritable


class UnreadableError(RetryError):
    """Too many copies are out of reach to read the entry, or to say that it does not exist."""

    def __init__(self, ledger: int, entry: int, reason: str) -> None:
        super().__init__(f"entry {entry} of ledger {ledger} cannot be read now: {reason}")
        self.ledger = ledger
        self.entry = entry
        self.reason = reason


class EntryLostError(UnreadableError):
    """Each bookie of the entry's write set answered, and none has a sound copy."""


class BookieBusyError(RetryError):
    """A bookie's bounded queue is full; it refused the work without doing any of it."""

    def __init__(self, bookie: str, reason: str) -> None:
        super().__init__(f"bookie {bookie} is busy: {reason}")
        self.bookie = bookie
        self.reason = reason


class StoreUnavailableError(RetryError):
    """The metadata store cannot be reached; the operation changed nothing."""

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(f"metadata store {uri} is unavailable: {reason}")
        self.uri = uri
        self.reason = reason


class OutcomeUnknownError(QuireError):
    """The operation may or may not have happened; re-read before doing it again."""


class AppendOutcomeUnknownError(OutcomeUnknownError):
    """An append failed after it may have been sent: recovery decides whether the entry exists."""

    def __init__(self, ledger: int, entry: int, reason: str) -> None:
        what = f"outcome of entry {entry} of ledger {ledger} is unknown: {reason}"
        super().__init__(f"{what}; read the ledger after it is closed to learn whether it was kept")
        self.ledger = ledger
        self.entry = entry
        self.reason = reason


class LedgerFencedError(OutcomeUnknownError):
    """Another client took over the ledger; unacknowledged appends have an unknown outcome."""

    def __init__(self, ledger: int) -> None:
        super().__init__(f"ledger {ledger} is fenced: another client is recovering it; {_KEPT}")
        self.ledger = ledger


class DeposedError(OutcomeUnknownError):
    """Another leader has taken the log over; appends not acknowledged have an unknown outcome."""

    def __init__(self, log: str, epoch: int, reason: str) -> None:
        super().__init__(f"leader of log {log!r} at epoch {epoch} was deposed: {reason}; {_KEPT}")
        self.log = log
        self.epoch = epoch
        self.reason = reason


class StoreOutcomeUnknownError(OutcomeUnknownError):
    """The connection was lost while a metadata change was under way; it may have been applied."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"outcome of the change of {path} is unknown: {reason}")
        self.path = path
        self.reason = reason


class LeavingTimeoutError(OutcomeUnknownError):
    """Leaving `connect` took longer than its deadline, and writers were abandoned."""

    def __init__(self, handles: Sequence[str], seconds: float) -> None:
        super().__init__(
            f"leaving connect took longer than {seconds:g} s: abandoned {', '.join(handles)}; "
            "acknowledged records are safe, records that were only submitted may or may not be "
            "kept; open the log, or recover the ledger (option leave_timeout of connect)"
        )
        self.handles = tuple(handles)
        self.seconds = seconds


class LeadershipLostError(QuireError):
    """The election ended this leadership: step down."""

    def __init__(self, election: str, reason: str) -> None:
        super().__init__(f"leadership of {election!r} is lost: {reason}")
        self.election = election
        self.reason = reason


class SessionExpiredError(QuireError):
    """The metadata store dropped the session, and with it every lease it held."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"metadata session expired: {reason}")
        self.reason = reason


class ConflictError(QuireError):
    """The record changed since it was read: read it again and decide afresh."""


class VersionConflictError(ConflictError):
    """Compare-and-set met another version than the one given."""

    def __init__(self, path: str, expected: int) -> None:
        super().__init__(f"{path} is no longer at version {expected}")
        self.path = path
        self.expected = expected


class NodeExistsError(ConflictError):
    """Create met an existing record."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} exists already")
        self.path = path


class TailConflictError(ConflictError):
    """A conditional append met another tail than expected; nothing was written."""

    def __init__(self, log: str, expected: int, actual: int) -> None:
        super().__init__(f"the next record of log {log!r} gets offset {actual}, not {expected}")
        self.log = log
        self.expected = expected
        self.actual = actual


class SequenceConflictError(ConflictError):
    """A producer's number is neither new nor remembered; nothing was written."""

    def __init__(self, producer: str, sequence: int, last: int) -> None:
        super().__init__(
            f"sequence {sequence} of producer {producer!r} is forgotten: the last one is {last}"
        )
        self.producer = producer
        self.sequence = sequence
        self.last = last


class NotFoundError(QuireError):
    """The thing named does not exist."""


class NoSuchNodeError(NotFoundError):
    """No such metadata record."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} does not exist in the metadata store")
        self.path = path


class NoSuchLedgerError(NotFoundError):
    """No such ledger: never created, deleted, or (from a bookie) never seen there."""

    def __init__(self, ledger: int) -> None:
        super().__init__(f"ledger {ledger} does not exist")
        self.ledger = ledger


class LedgerRetiredError(NoSuchLedgerError):
    """A bookie dropped the ledger because it was deleted, and keeps its id (protocol.md, B11).

    It denies no entry: the ledger had entries once. The client reads the ledger's record again. If
    the record is gone, the ledger was deleted; if it is there, the metadata store went back.
    """

    def __init__(self, ledger: int) -> None:
        super().__init__(ledger)
        self.args = (f"ledger {ledger} was deleted, and this bookie dropped its entries",)


class NoSuchEntryError(NotFoundError):
    """Provably no such entry, nor any other up to `through`, which is `entry` by default.

    `silent` bookies of its write set gave no verdict; enough did to prove that it was never
    acknowledged, if no bookie lost its disk.
    """

    def __init__(
        self, ledger: int, entry: int, through: int | None = None, silent: int = 0
    ) -> None:
        self.ledger = ledger
        self.entry = entry
        self.through = entry if through is None else through
        self.silent = silent
        more = f", nor any to {self.through}" if self.through > entry else ""
        super().__init__(f"ledger {ledger} has no entry {entry}{more}")


class NoSuchLogError(NotFoundError):
    """No such log."""

    def __init__(self, log: str) -> None:
        super().__init__(f"log {log!r} does not exist: the first append to it creates it")
        self.log = log


class NoSuchCursorError(NotFoundError):
    """No such cursor in the log."""

    def __init__(self, log: str, cursor: str) -> None:
        super().__init__(f"log {log!r} has no cursor {cursor!r}")
        self.log = log
        self.cursor = cursor


class LogReplacedError(NotFoundError):
    """The log was deleted, and another log of the same name was created."""

    def __init__(self, log: str) -> None:
        super().__init__(f"log {log!r} was deleted and recreated: old positions are invalid")
        self.log = log


class PositionTrimmedError(NotFoundError):
    """The position was trimmed away; `first` is the first readable position."""

    def __init__(self, log: str, position: str, first: str) -> None:
        left = f"the first position left is {first}"
        super().__init__(f"position {position} of log {log!r} was trimmed: {left}")
        self.log = log
        self.position = position
        self.first = first


class ClosedError(QuireError):
    """The handle, ledger or log takes no more appends."""


class LedgerClosedError(ClosedError):
    """The ledger was closed at `last_entry`; nothing after it will ever be in it."""

    def __init__(self, ledger: int, last_entry: int | None = None) -> None:
        end = "" if last_entry is None else f" at entry {last_entry}"
        super().__init__(f"ledger {ledger} is closed{end}")
        self.ledger = ledger
        self.last_entry = last_entry


class LogSealedError(ClosedError):
    """The log was sealed permanently."""

    def __init__(self, log: str) -> None:
        super().__init__(f"log {log!r} is sealed: it takes no more records")
        self.log = log


class HandleClosedError(ClosedError):
    """This object was closed by its owner."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is closed")
        self.what = what


class ForkedError(ClosedError):
    """This process was forked while its parent used quire.sync; the connections stayed there."""

    def __init__(self) -> None:
        super().__init__(
            "quire.sync was in use when this process was forked, and its connections stayed in the "
            "parent: start processes with the 'spawn' method, or fork before the first connect"
        )


class InvalidRequestError(QuireError, ValueError):
    """The call itself is wrong: change it."""


class InvalidReplicationError(InvalidRequestError):
    """Not E ≥ Qw ≥ Qa ≥ 1, or more bookies than an ensemble can have."""

    def __init__(
        self, ensemble: int, write_quorum: int, ack_quorum: int, ensemble_max: int
    ) -> None:
        shape = f"{ensemble}/{write_quorum}/{ack_quorum}"
        super().__init__(
            f"replication {shape} is not {ensemble_max} ≥ ensemble ≥ write quorum ≥ ack quorum ≥ 1:"
            " give numbers of bookies, as 3/3/2"
        )
        self.ensemble = ensemble
        self.write_quorum = write_quorum
        self.ack_quorum = ack_quorum


class DuplicateEntryError(InvalidRequestError):
    """The application gave the same entry id twice."""

    def __init__(self, ledger: int, entry: int) -> None:
        super().__init__(f"entry {entry} of ledger {ledger} was given before: ids are taken once")
        self.ledger = ledger
        self.entry = entry


class EntryTooLargeError(InvalidRequestError):
    """A payload exceeds the limit."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"payload of {size} bytes exceeds the limit of {limit} bytes: split it")
        self.size = size
        self.limit = limit


class UnauthorizedError(InvalidRequestError):
    """Wrong password for the ledger. The password and keys are never part of the message."""

    def __init__(self, ledger: int) -> None:
        super().__init__(f"wrong password for ledger {ledger}, or none: give password=…")
        self.ledger = ledger


class WrongLoopError(InvalidRequestError):
    """A handle was used in another event loop than the one it was made in."""

    def __init__(self, handle: str) -> None:
        super().__init__(
            f"{handle} belongs to another event loop: connect in the loop that uses it, or use "
            "quire.sync, which works in every thread"
        )
        self.handle = handle


class ConfigurationError(InvalidRequestError):
    """An option, address or file that cannot work."""


class MissingExtraError(ConfigurationError):
    """A package that quire installs only as part of an extra is missing."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the package {package}, which is not installed: "
            f"pip install 'quire[{extra}]'"
        )
        self.feature = feature
        self.package = package
        self.extra = extra


class IntegrityError(QuireError):
    """Tell a human: data or identity is wrong."""


class CorruptEntryError(IntegrityError):
    """A frame fails its digest, is too short, or names another ledger or entry."""

    def __init__(self, ledger: int, entry: int, reason: str) -> None:
        super().__init__(f"entry {entry} of ledger {ledger} is corrupt: {reason}")
        self.ledger = ledger
        self.entry = entry
        self.reason = reason


class CorruptRecordError(IntegrityError):
    """A metadata record cannot be believed: bad magic, version, checksum or content."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"metadata record {path} is corrupt: {reason}")
        self.path = path
        self.reason = reason


class MissingPageError(CorruptRecordError):
    """A page that a log's manifest names is not there. A manifest that was read earlier may be out
    of date: read it again.
    """

    def __init__(self, path: str, log_id: str) -> None:
        super().__init__(path, f"the page is missing, and the manifest of log {log_id} names it")
        self.log_id = log_id


class CorruptStorageError(IntegrityError):
    """A file of a bookie is damaged where damage cannot be the trace of a crash."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is corrupt: {reason}")
        self.path = path
        self.reason = reason


class EntryUnknownError(IntegrityError):
    """A bookie cannot say whether it ever had the entry: it may have lost it."""

    def __init__(self, ledger: int, entry: int, reason: str) -> None:
        super().__init__(f"entry {entry} of ledger {ledger} is unknown here: {reason}")
        self.ledger = ledger
        self.entry = entry
        self.reason = reason


class LedgerDisownedError(EntryUnknownError):
    """The bookie gave the ledger's entries to another one: it denies nothing of the ledger."""


class WrongBookieError(IntegrityError):
    """The server or directory belongs to another bookie or another cluster."""

    def __init__(self, what: str, expected: str, found: str) -> None:
        super().__init__(f"{what} belongs to {found}, not to {expected}")
        self.what = what
        self.expected = expected
        self.found = found


class StoreWentBackError(IntegrityError):
    """The metadata store lacks changes that it had confirmed: it is an old copy of itself.

    Nothing may be served, closed or deleted on its word before an operator has decided.
    """

    def __init__(self, what: str, evidence: str) -> None:
        super().__init__(
            f"{what} went back in time: {evidence}; restore the newest copy of the metadata store, "
            "or run 'quire metadata adopt' if there is none (docs/operations.md)"
        )
        self.what = what
        self.evidence = evidence
