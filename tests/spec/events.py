"""Events of one ledger as values: what an observer was told (quire/observer.py), for the judge."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from quire.ledger.metadata import LedgerState
from quire.observer import Source

Fragments = tuple[tuple[int, tuple[str, ...]], ...]

NOTHING: Final = -1


class Kind(StrEnum):
    """What happened. The comment names the action of the specification."""

    OPENED = "opened"  # Create, Change: the record is OPEN with these fragments
    RECOVERING = "recovering"  # Begin: the record is IN_RECOVERY
    CLOSED = "closed"  # WriterCloses, RecovererCloses
    DELETED = "deleted"  # Delete
    RECORDED = "recorded"  # none: a process learned of the record at a version
    DELETING = "deleting"  # none: a deletion is on its way, and may have been made
    ADDED = "added"  # Add: a bookie holds entries of the writer durably
    WRITTEN_BACK = "written back"  # WriteBack, by a recovery or for a copy that was lost
    FOUND = "found"  # none: in the journal at a start, and not durable anew
    REPLAYED = "replayed"  # Add or WriteBack, found in the journal, and durable anew
    REFUSED = "refused"  # a bookie refused the writer because of a fence
    FENCED = "fenced"  # Fence
    DENIED = "denied"  # ReadNo: "no such entry" of the whole range that was asked for
    RETIRED = "retired"  # Collect
    DISOWNED = "disowned"  # none: other bookies hold the closed ledger
    SALVAGED = "salvaged"  # Restart, after a repair: what was kept is not told
    CONFIRMED = "confirmed"  # Ack
    FROZEN = "frozen"  # Change begins: LAC stands still
    THAWED = "thawed"  # Change ends
    BEGAN = "began"  # Begin, by one recovery
    STARTED = "started"  # Start
    SHOWN = "shown"  # ReadYes: a recovery counts copies
    COUNTED = "counted"  # ReadNo: a recovery counts a denial
    CLOSING = "closing"  # Step to the end: a recovery decides


SAID_ONLY: Final = frozenset({Kind.DENIED, Kind.COUNTED})
"""Events whose range is what was asked for. It proves no entry to exist."""


RECORDS: Final = {
    LedgerState.OPEN: Kind.OPENED,
    LedgerState.IN_RECOVERY: Kind.RECOVERING,
    LedgerState.CLOSED: Kind.CLOSED,
}
"""What a record tells by its state."""

SOURCES: Final = {
    Source.WRITER: Kind.ADDED,
    Source.RECOVERY: Kind.WRITTEN_BACK,
    Source.COPY: Kind.WRITTEN_BACK,
    Source.FOUND: Kind.FOUND,
    Source.REPLAY: Kind.REPLAYED,
}
"""What a bookie tells of entries that it holds now."""


class Event(NamedTuple):
    """One event. Entries are first..last; `last` is the end, LAC or start where there is one."""

    kind: Kind
    bookie: str = ""
    first: int = 0
    last: int = NOTHING
    fragments: Fragments = ()
    token: str = ""
    """The recovery that tells."""
    version: int = NOTHING
    """Of the record."""

    @property
    def entries(self) -> range:
        """The entries that are told of."""
        return range(self.first, self.last + 1)

    def __str__(self) -> str:
        who = self.bookie or self.token
        return " ".join([self.kind.value, *([who] if who else []), f"{self.first}..{self.last}"])


class Shape(NamedTuple):
    """The replication of the ledger: ensemble, write quorum, ack quorum."""

    ensemble: int
    write_quorum: int
    ack_quorum: int
