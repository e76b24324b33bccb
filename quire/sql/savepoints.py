"""A savepoint around the block of a transaction: is the transaction still whole?

No driver is imported here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from quire.errors import TransactionEndedError

SAVEPOINT: Final = "SAVEPOINT quire"
RELEASE: Final = "RELEASE SAVEPOINT quire"

_ENDED: Final = ("3B001", "25P01")
"""The savepoint is gone with its transaction, or no transaction is open."""

_FAILED: Final = "25P02"

_SQLITE_ERROR: Final = 1
"""SQLite's code for every statement that makes no sense, as the release of no savepoint."""


@contextmanager
def released(what: str) -> Iterator[None]:
    """Turn the failure to release the savepoint into `TransactionEndedError`."""
    try:
        yield
    except Exception as error:
        cause = getattr(error, "orig", error)
        state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
        is_gone = state in _ENDED or getattr(cause, "sqlite_errorcode", None) == _SQLITE_ERROR
        if state != _FAILED and not is_gone:
            raise
        ended = TransactionEndedError(what)
        if state == _FAILED:
            ended.add_note(
                "a statement failed and its error was caught, after which PostgreSQL commits "
                "nothing: put such a statement into a savepoint of its own"
            )
        raise ended from error
