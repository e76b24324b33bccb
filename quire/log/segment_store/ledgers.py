"""Segments in quire's ledgers: the port over a catalog. One segment is one ledger.

A thin face: appends and reads go to the ledger's own handles.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final, NamedTuple

from quire.aio.handle import Handle
from quire.entry import Entry, EntryId, LedgerId
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.end_watch import EndWatch
from quire.ledger.ledger_record import LedgerRecord
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.quorum import Replication
from quire.ledger.reader import LedgerReader
from quire.ledger.records import RecordsCapability
from quire.ledger.resting import RestingLedger
from quire.ledger.writer import LedgerWriter
from quire.log.segment_store.port import (
    Along,
    SeenRecord,
    SegmentCapability,
    SegmentFacts,
    SegmentOptions,
    SegmentSink,
)
from quire.metastore.changes import Change

_NEEDS: Final = {
    SegmentCapability.TRANSACTIONS: RecordsCapability.TRANSACTIONS,
    SegmentCapability.LABELS: RecordsCapability.CUSTOM,
    SegmentCapability.POLICY: RecordsCapability.POLICY,
    SegmentCapability.PARTS: RecordsCapability.TRANSACTIONS,
}
"""The abilities that records of ledgers must have. A salt needs `TOKEN`, and is empty without."""


def facts_of(metadata: LedgerMetadata) -> SegmentFacts:
    """Return the facts of the segment in a ledger."""
    return SegmentFacts(
        metadata.ledger,
        metadata.custom_metadata,
        bytes.fromhex(metadata.token),
        metadata.last_entry,
        metadata.length,
    )


def view_of(record: LedgerRecord) -> SeenRecord | None:
    """Return the view of a ledger's record, None if it is in another store."""
    path = record.path
    return None if path is None else SeenRecord(path, record.seen)


class LedgerSink:
    """Port `SegmentSink`: a ledger's writer."""

    __slots__ = ("append", "submit", "writer")

    def __init__(self, writer: LedgerWriter) -> None:
        self.writer: Final = writer
        self.submit = writer.submit
        self.append = writer.append

    @property
    def ledger(self) -> LedgerId:
        """See `SegmentSink.ledger`."""
        return self.writer.ledger

    @property
    def facts(self) -> SegmentFacts:
        """See `SegmentSink.facts`."""
        return facts_of(self.writer._metadata)

    @property
    def last_pushed(self) -> EntryId:
        """See `SegmentSink.last_pushed`."""
        return self.writer.last_pushed

    async def close(self) -> None:
        """See `SegmentSink.close`."""
        await self.writer.close()

    def abandon(self) -> None:
        """See `SegmentSink.abandon`."""
        self.writer.abandon()

    def view(self) -> SeenRecord | None:
        """See `SegmentSink.view`."""
        return view_of(self.writer._record)

    def watch(self) -> None:
        """See `SegmentSink.watch`."""
        self.writer._watch_record()

    def guard(self) -> Sequence[Change]:
        """See `SegmentSink.guard`."""
        return self.writer._unchanged()


class RestingSegment(NamedTuple):
    """Port `RestingSink`: a ledger at rest."""

    catalog: LedgerCatalog
    place: RestingLedger

    def view(self) -> SeenRecord:
        """See `SegmentSink.view`."""
        view = view_of(self.place.record)
        assert view is not None, "it rests"
        return view

    def wake(self) -> LedgerSink:
        """See `RestingSink.wake`."""
        return LedgerSink(self.catalog.wake(self.place))


class LedgerSource(Handle):
    """Port `SegmentSource`: a ledger's reader."""

    __slots__ = ("follow_runs", "last_acknowledged", "last_confirmed", "read_entry", "reader")

    def __init__(self, reader: LedgerReader) -> None:
        self.reader: Final = reader
        self.last_confirmed = reader.last_confirmed
        self.last_acknowledged = reader.last_acknowledged
        self.read_entry = reader.read_entry
        self.follow_runs = reader.follow_runs

    @property
    def ledger(self) -> LedgerId:
        """See `SegmentSource.ledger`."""
        return self.reader.ledger

    @property
    def facts(self) -> SegmentFacts:
        """See `SegmentSource.facts`."""
        return facts_of(self.reader._metadata)

    @property
    def is_closed(self) -> bool:
        """See `SegmentSource.is_closed`."""
        return self.reader.is_closed

    async def read_head(self, entry: EntryId) -> bytes:
        """See `SegmentSource.read_head`: a ledger gives whole entries only."""
        return (await self.read_entry(entry)).payload

    def read_runs(
        self, first: EntryId, last: EntryId | None = None
    ) -> AsyncGenerator[list[Entry], None]:
        """See `SegmentSource.read_runs`."""
        return self.reader.read_runs(first, last)

    def confirm(self, last: EntryId) -> None:
        """See `SegmentSource.confirm`."""
        self.reader._known.confirm(last)

    async def wait_closed(self) -> None:
        """See `SegmentSource.wait_closed`."""
        while not self.reader.is_closed:
            await self.reader._known.wait_change()

    def watch(self) -> EndWatch:
        """See `SegmentSource.watch`."""
        return EndWatch(self.reader._known)

    async def close(self) -> None:
        """See `SegmentSource.close`."""
        await self.reader.close()


class LedgerSegments:
    """Port `SegmentStore`: the ledgers of a catalog."""

    def __init__(self, catalog: LedgerCatalog) -> None:
        self._catalog = catalog

    @property
    def capabilities(self) -> frozenset[SegmentCapability]:
        """See `SegmentStore.capabilities`."""
        has = self._catalog.records.capabilities
        return frozenset(each for each, needed in _NEEDS.items() if needed in has)

    async def create(self, wanted: SegmentOptions, along: Along | None = None) -> LedgerSink:
        """See `SegmentStore.create`."""
        writer = await self._catalog.create(
            wanted.replication,
            password=wanted.password,
            digest=wanted.digest,
            custom_metadata=wanted.labels,
            placement=wanted.placement,
            read_needs_password=wanted.read_needs_password,
            salt=wanted.salt,
            along=along,
        )
        return LedgerSink(writer)

    async def check_room(self, wanted: SegmentOptions) -> None:
        """See `SegmentStore.check_room`."""
        replication = wanted.replication or Replication()
        if wanted.read_needs_password:
            await self._catalog.check_read_password()
        await self._catalog.check_bookies(replication, wanted.placement)

    def fits(self, sink: SegmentSink, wanted: SegmentOptions) -> bool:
        """See `SegmentStore.fits`: all bookies of its ensemble are up and writable."""
        assert isinstance(sink, LedgerSink), "a sink of another store"
        metadata = sink.writer._metadata
        return (
            metadata.custom_metadata == wanted.labels
            and metadata.replication == (wanted.replication or Replication())
            and metadata.read_needs_password == wanted.read_needs_password
            and metadata.placement == self._catalog.placement(wanted.placement)
            and self._catalog.is_whole(metadata)
        )

    def rest(self, sink: SegmentSink) -> RestingSegment | None:
        """See `SegmentStore.rest`."""
        assert isinstance(sink, LedgerSink), "a sink of another store"
        place = None if sink.view() is None else sink.writer._rest()
        return None if place is None else RestingSegment(self._catalog, place)

    async def open(self, ledger: LedgerId, *, password: bytes = b"") -> LedgerSource:
        """See `SegmentStore.open`."""
        return LedgerSource(await self._catalog.open_without_recovery(ledger, password=password))

    async def seal(self, ledger: LedgerId, *, password: bytes = b"") -> LedgerSource:
        """See `SegmentStore.seal`: the ledger is fenced and recovered."""
        return LedgerSource(await self._catalog.open(ledger, password=password))

    async def delete(self, ledger: LedgerId, along: Sequence[Change] = ()) -> None:
        """See `SegmentStore.delete`."""
        await self._catalog.delete(ledger, along)
