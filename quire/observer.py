"""Events of the protocol, reported where they take effect, to compare a run with the specification.

An `Observer` is told and never asked: it cannot change the outcome, and by default it does nothing.
Each call stands after the point where an effect can no longer be undone, and before anything that
another process could learn it by. A bookie tells of an entry after the sync of its journal and
before the answer; a recovery tells of a denial in the step that counts it.

A call costs one run, one fence or one change of LAC, never one entry: sequences are handed over as
they are. The events, with their names in `spec/Ledger.tla`:

    bookie      held (Add, WriteBack), fenced (Fence), denied (ReadNo), refused, retired (Collect)
    writer      confirmed (Ack), frozen and thawed (Change)
    recovery    recovering (Begin), started (Start), shown (ReadYes), counted, closing
    store       recorded (Create, Change, Begin, WriterCloses, RecovererCloses), deleted (Delete)

Not here: the file of events (event_log.py), and the contents of a ledger's record (the store of
`quire.ledger.observed_store`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from quire.entry import BookieId, Entry, EntryId, LedgerId


class Source(StrEnum):
    """Where the entries are from that a bookie holds now."""

    WRITER = "writer"
    RECOVERY = "recovery"
    COPY = "copy"
    """Another bookie had them: this one lost them, or its copy was damaged."""
    FOUND = "found"
    """They were in the journal when the process began, and are not durable anew: after a sync that
    failed before, a power cut can still take them."""
    REPLAY = "replay"
    """They were found in the journal, and are durable anew. They may have been told before."""


class RecoveryObserver:
    """Told of one attempt at a recovery. Does nothing; subclasses write down."""

    def started(self, lac: EntryId, everyone: Sequence[BookieId] = ()) -> None:
        """It reads on from `lac`, which is confirmed: the bookies that answered cover every write
        set. For a record of an older incarnation `everyone` is asked instead.
        """

    def shown(self, bookie: BookieId, entries: Sequence[Entry]) -> None:
        """Valid copies that a bookie sent are counted."""

    def counted(self, bookie: BookieId, first: EntryId, last: EntryId) -> None:
        """A bookie's "no such entry" is counted as a denial of first..last."""

    def closing(self, last: EntryId) -> None:
        """The end is decided; the record is asked for it next."""


class Observer:
    """Told of what one process does. Does nothing; subclasses write down."""

    def held(self, ledger: LedgerId, entries: Sequence[EntryId], source: Source) -> None:
        """Entries of one run are durable, can be read, and are not answered for yet. Entries that
        were only found may be lost again, and are told once more when they are durable.
        """

    def fenced(self, ledger: LedgerId) -> None:
        """A fence is durable, and every entry that was accepted before it as well. Each life of a
        bookie tells of its fences again before it serves.
        """

    def denied(self, ledger: LedgerId, first: EntryId, last: EntryId) -> None:
        """A fencing read of first..last is about to be answered with "no such entry"."""

    def refused(self, ledger: LedgerId) -> None:
        """The writer is about to be refused because of a fence."""

    def retired(self, ledger: LedgerId) -> None:
        """A deleted ledger was dropped; its id is kept."""

    def disowned(self, ledger: LedgerId) -> None:
        """A ledger was dropped because other bookies hold all of it; its id is kept."""

    def salvaged(self, ledger: LedgerId) -> None:
        """The bookie begins with a ledger in limbo: a repair kept the entries that it found."""

    def confirmed(self, ledger: LedgerId, lac: EntryId) -> None:
        """The writer's LAC moved; nothing was answered or sent with it yet."""

    def frozen(self, ledger: LedgerId, first: EntryId) -> None:
        """The writer's LAC stands still: a change would begin a fragment at `first`."""

    def thawed(self, ledger: LedgerId, first: EntryId, bookies: Sequence[BookieId]) -> None:
        """The writer's LAC may move again, on the word of the fragment that begins at `first`."""

    def recovering(self, ledger: LedgerId) -> RecoveryObserver:
        """A recovery begins; its record is in recovery. Returns the observer of this attempt."""
        return SILENT_RECOVERY

    def recorded(
        self,
        ledger: LedgerId,
        version: int,
        state: str,
        replication: tuple[int, int, int],
        fragments: Sequence[tuple[EntryId, Sequence[BookieId]]],
        last: EntryId | None,
    ) -> None:
        """The ledger's record was read or written, and is this at a version."""

    def deleting(self, ledger: LedgerId) -> None:
        """The ledger's record is about to be deleted: whether it is may stay unknown."""

    def deleted(self, ledger: LedgerId) -> None:
        """The ledger has no record any more."""


SILENT_RECOVERY: Final = RecoveryObserver()
SILENT: Final = Observer()
"""The default: an observer that does nothing."""
