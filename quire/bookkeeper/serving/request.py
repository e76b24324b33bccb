"""A request of a client of Apache BookKeeper, and the contents of its answer. Pure.

Both protocols carry the same requests in other bytes, so a bookie answers them by one code. A
request keeps the facts that its answer repeats: the protocol, the operation's number, and the
transaction of the third protocol or the request id of a batch read.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from quire.bookkeeper.status import Status
from quire.entry import NO_ENTRY, EntryId, LedgerId

SECOND: Final = 2
THIRD: Final = 3
"""The protocols."""

LAST: Final = -1
"""The entry of a read that asks for the last one held."""

AUTH_DISABLED: Final = "AuthDisabledPlugin"
"""The plugin that a bookie without authentication names."""


class RequestKind(StrEnum):
    """The work that a request asks for."""

    ADD = "add"
    READ = "read"
    WAIT = "wait"
    """The long poll."""
    BATCH_READ = "batch read"
    WRITE_LAC = "write LAC"
    READ_LAC = "read LAC"
    FORCE = "force"
    LIST_ENTRIES = "list entries"
    INFO = "info"
    AUTH = "auth"
    START_TLS = "start TLS"
    UNKNOWN = "unknown"
    """An operation that this bookie does not know: it is answered as a bad request."""


class ClientRequest(NamedTuple):
    """One request. Fields that a kind does not have keep their defaults."""

    protocol: int
    operation: int
    """The number of the operation, which the answer repeats."""
    transaction: int
    kind: RequestKind
    ledger: LedgerId = -1
    entry: EntryId = NO_ENTRY
    """The LAC of an explicit LAC."""
    key: bytes | None = None
    body: bytes = b""
    """A frame, or the packet of an explicit LAC."""
    fences: bool = False
    recovery: bool = False
    deferred: bool = False
    above: EntryId = NO_ENTRY
    """A long poll ends when the LAC is above it."""
    milliseconds: int = 0
    entries: int = 0
    """The most entries of a batch read, 0 or less for any number; what INFO asks for, in bits."""
    bytes_max: int = 0


class Reply(NamedTuple):
    """The contents of an answer. Fields that a kind does not have are left out of it."""

    status: Status
    entry: EntryId | None = None
    """The entry of the body, where the request has another."""
    body: bytes = b""
    """A frame; a run of frames for a batch read; the ids held for a list of entries."""
    lac: EntryId | None = None
    packet: bytes = b""
    is_bare: bool = False
    """Whether it is only a status, as for a client that is not served at all."""
    total: int = 0
    free: int = 0
