"""The numbers that a bookie of Apache's answers with, and the errors that they mean here.

An answer that is not known is a failed bookie: it never says that an entry does not exist. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from quire.entry import BookieId, EntryId, LedgerId
from quire.errors import (
    BookieBusyError,
    BookieUnavailableError,
    ClientRefusedError,
    EntryUnknownError,
    InvalidRequestError,
    LedgerFencedError,
    LedgerRetiredError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NotPermittedError,
    QuireError,
    ReadOnlyBookieError,
    UnauthorizedError,
)


class Status(IntEnum):
    """The statuses of the third protocol, which has a number for each."""

    OK = 0
    NO_LEDGER = 402
    NO_ENTRY = 403
    BAD_REQUEST = 404
    IO_ERROR = 501
    UNAUTHORIZED = 502
    BAD_VERSION = 503
    FENCED = 504
    READ_ONLY = 505
    TOO_MANY_REQUESTS = 506
    UNKNOWN_STATE = 507


ABSENT: Final = (Status.NO_LEDGER, Status.NO_ENTRY)
"""Only these deny that a bookie holds an entry."""

CODES: Final[Mapping[int, Status]] = {
    0: Status.OK,
    1: Status.NO_LEDGER,
    2: Status.NO_ENTRY,
    100: Status.BAD_REQUEST,
    101: Status.IO_ERROR,
    102: Status.UNAUTHORIZED,
    103: Status.BAD_VERSION,
    104: Status.FENCED,
    105: Status.READ_ONLY,
    106: Status.TOO_MANY_REQUESTS,
    107: Status.UNKNOWN_STATE,
}
"""The return codes of the second protocol."""

NUMBERS: Final[Mapping[Status, int]] = {status: code for code, status in CODES.items()}


def error_of(status: int, bookie: BookieId, ledger: LedgerId, entry: EntryId) -> QuireError:
    """Return the error that an answer other than OK is.

    Args:
        status: a number of the third protocol; any number is possible.
        bookie: the bookie that answered.
        ledger: the ledger that the request named.
        entry: the entry that the request named.
    """
    match status:
        case Status.NO_LEDGER:
            return NoSuchLedgerError(ledger)
        case Status.NO_ENTRY:
            return NoSuchEntryError(ledger, entry)
        case Status.UNAUTHORIZED:
            return UnauthorizedError(ledger)
        case Status.FENCED:
            return LedgerFencedError(ledger)
        case Status.READ_ONLY:
            return ReadOnlyBookieError(bookie, "it says so")
        case Status.TOO_MANY_REQUESTS:
            return BookieBusyError(bookie, "it has too many requests")
        case Status.UNKNOWN_STATE:
            return EntryUnknownError(ledger, entry, "the bookie may have lost it")
        case Status.BAD_REQUEST:
            return InvalidRequestError(
                f"bookie {bookie} does not understand a request about entry {entry} of ledger "
                f"{ledger}: its version is too old for it, or the request is wrong"
            )
        case Status.IO_ERROR:
            return BookieUnavailableError(bookie, "it failed to read or write its disk")
        case Status.BAD_VERSION:
            return BookieUnavailableError(bookie, "it does not speak this version of its protocol")
    return BookieUnavailableError(bookie, f"it answered with the unknown status {status}")


def status_of(error: Exception) -> Status:
    """Return the status that a bookie answers with instead of an error.

    A ledger that was dropped is in an unknown state: "no ledger" would deny entries that another
    bookie may hold.
    """
    match error:
        case LedgerRetiredError() | EntryUnknownError():
            return Status.UNKNOWN_STATE
        case NoSuchLedgerError():
            return Status.NO_LEDGER
        case NoSuchEntryError():
            return Status.NO_ENTRY
        case LedgerFencedError():
            return Status.FENCED
        case ReadOnlyBookieError():
            return Status.READ_ONLY
        case BookieBusyError():
            return Status.TOO_MANY_REQUESTS
        case UnauthorizedError() | NotPermittedError() | ClientRefusedError():
            return Status.UNAUTHORIZED
        case InvalidRequestError():
            return Status.BAD_REQUEST
    return Status.IO_ERROR
