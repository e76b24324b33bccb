"""What a person at the terminal does about an error, where the error cannot know the command.

An error of the library names calls of Python. Here is the command in its place, or the option that
is missing.
"""

from __future__ import annotations

from typing import Final

from quire.errors import (
    BookieUnavailableError,
    DecryptionError,
    LedgerRetiredError,
    NoSuchBookieError,
    NoSuchCursorError,
    NoSuchLedgerError,
    NoSuchLogError,
    QuireError,
    StoreUnavailableError,
    UnauthorizedError,
    UnreadableError,
)

REMEDIES: Final[tuple[tuple[type[QuireError], str | None], ...]] = (
    (LedgerRetiredError, None),
    (NoSuchLedgerError, "`quire ledger list` shows the ledgers"),
    (NoSuchBookieError, "`quire bookie list --all` shows the bookies"),
    (NoSuchLogError, "`quire log list` shows the logs"),
    (NoSuchCursorError, "`quire log cursor list` shows the cursors of a log"),
    (UnauthorizedError, "give the password in QUIRE_PASSWORD"),
    (DecryptionError, "give the keys with --key-file FILE"),
    (UnreadableError, "`quire bookie list` shows which bookies answer"),
    (BookieUnavailableError, "`quire bookie list` shows which bookies answer"),
    (StoreUnavailableError, "check the address in --store, and that its servers run"),
)
"""By class; the first match counts. None: the error names its own remedy."""


def remedy(error: BaseException) -> str | None:
    """Return what to do about an error, None where its text says so."""
    return next((text for kind, text in REMEDIES if isinstance(error, kind)), None)
