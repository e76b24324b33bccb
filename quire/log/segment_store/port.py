"""The port between logs and what holds the entries of a segment.

A log needs little of its storage: create a segment, append to it, seal it, read it, delete it.
`LedgerSegments` (ledgers.py) does that with quire's ledgers. Ledgers of another system, or another
engine, serve a log by the same port. A segment is named by a `LedgerId` in each of them.

Law, for every implementation (contract suite: `tests/contract/segments`):

  J1  The entries of a segment are numbered from 0 in the order of submission, and answered in it.
  J2  An entry that was answered is in the segment until the segment is deleted.
  J3  After `seal` returned, no entry is answered any more, and the end never changes. Every entry
      that was answered is at or below the end, and entries below it are not missing.
  J4  `open` never disturbs the sink. An entry that a source delivered survives every `seal`.
  J5  After `delete` returned, `open` and `seal` raise `NoSuchLedgerError`.
  J6  No segment is created twice under one id.
  J7  A watch is stirred when an entry can be read that its source did not know, and when the
      segment is sealed or deleted. It may be stirred for nothing.

Systems differ. A store states its `capabilities`; a call that needs a missing one raises
`UnsupportedError` and changes nothing.

Not here: which segments a log has (quire/log/manifest), what an entry contains
(quire/log/records), the search for segments that no log lists (quire/log/maintenance/orphans.py),
which is a tool of quire's own ledgers.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self, TypeAlias

from quire.entry import DigestKind, Entry, EntryId, LedgerId
from quire.ledger.domains import Placement
from quire.ledger.quorum import Replication
from quire.metastore.changes import Change


class SegmentCapability(enum.Enum):
    """A promise beyond the law of the port."""

    TRANSACTIONS = "transactions with other records"
    """A segment is created, kept and deleted in a transaction with records of the log's store."""
    LABELS = "labels of a segment"
    """A segment keeps the labels that it was created with."""
    POLICY = "placement of copies"
    """A segment's copies are placed by a policy."""
    PARTS = "ledgers as segments"
    """A closed ledger of the cluster is a segment: jobs write ledgers that a log ingests."""


@dataclass(frozen=True, slots=True)
class SegmentOptions:
    """How a segment is to be stored.

    Replication and placement are the store's defaults when None. A store that replicates by itself
    may ignore `replication` and `digest`.
    """

    replication: Replication | None = None
    password: bytes = b""
    digest: DigestKind = DigestKind.CRC32C
    labels: Mapping[str, str] = field(default_factory=dict)
    placement: Placement | None = None
    read_needs_password: bool = False
    """Whether the store gives entries only to peers that know the password."""
    salt: bytes = b""
    """The password is stretched with it: segments with one salt share the work. Empty: each segment
    has its own."""


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """A store's knowledge of a segment without a look at its entries."""

    ledger: LedgerId
    labels: Mapping[str, str]
    salt: bytes
    """Random bytes that no other segment has, drawn at the creation; empty where the store keeps
    none. Batches cannot be encrypted then.
    """
    last_entry: EntryId | None = None
    """The last entry of a sealed segment, −1 for none; None while the segment is open."""
    length: int | None = None
    """The payload bytes of a sealed segment."""

    @property
    def is_sealed(self) -> bool:
        """Whether the segment's end is decided."""
        return self.last_entry is not None


class SeenRecord(NamedTuple):
    """A record of the metadata store as it was seen last."""

    path: str
    version: int


class SegmentSink(Protocol):
    """The only writer of a new segment."""

    @property
    def ledger(self) -> LedgerId:
        """The segment's id."""
        ...

    @property
    def facts(self) -> SegmentFacts:
        """The store's last word. After `close` the segment is sealed, unless `abandon` came
        first.
        """
        ...

    @property
    def last_pushed(self) -> EntryId:
        """The last entry that was given an id, −1 for none."""
        ...

    async def submit(self, payload: bytes) -> asyncio.Future[EntryId]:
        """Wait for room, and return a future of the entry's id.

        Raises, from the call or from the future: `LedgerFencedError` or `LedgerClosedError` when
        another client seals the segment, `NoSuchLedgerError` when it was deleted,
        `AppendOutcomeUnknownError` for an entry with an unknown fate. A `RefusedError` that
        ended the sink is raised itself, or is the cause of the unknown fate.
        """
        ...

    async def append(self, payload: bytes) -> EntryId:
        """Append one entry and return its id once it is answered. Raises as `submit`."""
        ...

    async def close(self) -> None:
        """Wait for entries in flight, then seal the segment after the last one. Harmless again.

        Raises as `submit` when another client was first, and transient errors when the end could
        not be decided: then it can be called again. Cancelling abandons the sink.
        """
        ...

    def abandon(self) -> None:
        """Stop at once, as a crash would: the segment stays open until another client seals it."""
        ...

    def view(self) -> SeenRecord | None:
        """Return the record of the segment and the version that was seen last.

        None where the metadata store of logs does not have it.
        """
        ...

    def watch(self) -> None:
        """Learn from now on, without an entry, that another client sealed or deleted the segment.

        A new sink does so from the start, a woken one from this call on. Harmless again.
        """
        ...

    def guard(self) -> Sequence[Change]:
        """Return the changes that can be made only while no other client sealed or deleted the
        segment. Raises `UnsupportedError` without `TRANSACTIONS`.
        """
        ...


class RestingSink(Protocol):
    """An open segment without a sink (`SegmentStore.rest`)."""

    def view(self) -> SeenRecord:
        """See `SegmentSink.view`."""
        ...

    def wake(self) -> SegmentSink:
        """Return the next sink of the segment, which goes on where the one before ended.

        Called once, in the loop of the sink before.
        """
        ...


class SegmentWatch(Protocol):
    """A watch of a segment's end (`SegmentSource.watch`)."""

    @property
    def is_stirred(self) -> bool:
        """Whether the end may have moved since the watch began. It stays so."""
        ...

    async def wait(self) -> None:
        """Return when the end may have moved."""
        ...

    async def close(self) -> None:
        """End the watch. Harmless again."""
        ...


class SegmentSource(Protocol):
    """A handle for reading one segment. Reading methods may be used concurrently.

    They raise `HandleClosedError` after `close`, `UnreadableError` when entries are out of reach,
    `NoSuchLedgerError` when the segment was deleted meanwhile.
    """

    @property
    def ledger(self) -> LedgerId:
        """The segment's id."""
        ...

    @property
    def facts(self) -> SegmentFacts:
        """The store's last word."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether the segment is known to be sealed."""
        ...

    async def last_confirmed(self) -> EntryId:
        """Return the last entry that can be read now, −1 for none."""
        ...

    async def last_acknowledged(self) -> EntryId:
        """Return the last entry, at or after every entry answered before the call.

        Raises `UnreadableError` when a silent sink leaves it undecided.
        """
        ...

    async def read_entry(self, entry: EntryId) -> Entry:
        """Return one entry. Raises `NoSuchEntryError` for one after the end."""
        ...

    async def read_head(self, entry: EntryId) -> bytes:
        """Return an entry's payload, at least as far as the header of a batch."""
        ...

    def read_runs(
        self, first: EntryId, last: EntryId | None = None
    ) -> AsyncGenerator[list[Entry], None]:
        """Yield entries in order, in lists, up to the end known now when `last` is None.

        Raises `NoSuchEntryError` for a range that passes the end.
        """
        ...

    def follow_runs(self, first: EntryId) -> AsyncGenerator[list[Entry], None]:
        """Yield entries as they are confirmed, until the segment is sealed and all were delivered.

        Raises `NoSuchEntryError` when the segment ends before `first` − 1.
        """
        ...

    def confirm(self, last: EntryId) -> None:
        """Take note that entries up to `last` are known to be confirmed."""
        ...

    async def wait_closed(self) -> None:
        """Return when the segment is known to be sealed."""
        ...

    def watch(self) -> SegmentWatch:
        """Begin to watch for an end after the last entry that this source knows as confirmed.

        The caller closes the watch. A store that is told nothing by itself returns a watch that is
        stirred from the start.
        """
        ...

    async def close(self) -> None:
        """Release the handle. Harmless again."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


Along: TypeAlias = Callable[[LedgerId], Sequence[Change]]
"""Gives the changes that are made together with a new segment, for its id."""


class SegmentStore(Protocol):
    """Holds the entries of segments."""

    @property
    def capabilities(self) -> frozenset[SegmentCapability]:
        """Abilities of the store beyond the law."""
        ...

    async def create(self, wanted: SegmentOptions, along: Along | None = None) -> SegmentSink:
        """Create an empty segment and return its only sink.

        The changes of `along` are made with it or not at all. A creation that fails or is cancelled
        may leave an empty segment.

        Raises:
            NotEnoughBookiesError: the store has no room for it now.
            UnsupportedError: `along` without `TRANSACTIONS`, labels without `LABELS`, a placement
                without `POLICY`.
        """
        ...

    async def check_room(self, wanted: SegmentOptions) -> None:
        """Raise `NotEnoughBookiesError` when no segment could be created now, and what `create`
        would raise for options that this store cannot serve.
        """
        ...

    def fits(self, sink: SegmentSink, wanted: SegmentOptions) -> bool:
        """Whether an unwritten segment of this store is as wanted, and can be written as far as is
        known.
        """
        ...

    def rest(self, sink: SegmentSink) -> RestingSink | None:
        """End a sink that has nothing to do, and return the value that wakes the next one.

        None while there is something to do, and always from a store whose sinks cost little or have
        no view. The sink goes on then. Nothing is said to the store: the segment stays open.
        """
        ...

    async def open(self, ledger: LedgerId, *, password: bytes = b"") -> SegmentSource:
        """Open a segment as it is. Raises `NoSuchLedgerError`, and `UnauthorizedError` for a wrong
        password.
        """
        ...

    async def seal(self, ledger: LedgerId, *, password: bytes = b"") -> SegmentSource:
        """Open a segment with a decided end: if it is open, end its sink and decide the end first.

        Raises as `open`, and `UnreadableError` or `NotEnoughBookiesError` when the end cannot be
        decided now. Cancelling may leave the segment without an end: seal it again.
        """
        ...

    async def delete(self, ledger: LedgerId, along: Sequence[Change] = ()) -> None:
        """Delete a segment that is sealed or has no sink, with other changes or not at all.

        Raises `NoSuchLedgerError`, the errors of the changes, and `UnsupportedError` for changes
        without `TRANSACTIONS`.
        """
        ...


class StirredWatch:
    """A watch of a store that is told nothing: the end has to be asked for each time."""

    is_stirred: Final = True

    async def wait(self) -> None:
        """See `SegmentWatch.wait`."""

    async def close(self) -> None:
        """See `SegmentWatch.close`."""
