"""Blocking twins of ledger writers and readers."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterable, Iterator
from itertools import chain

from quire.entry import Entry, EntryId, LedgerId
from quire.ledger.info import LedgerInfo
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.numbered import NumberedWriter
from quire.ledger.options import LedgerOptions
from quire.ledger.reader import LedgerReader
from quire.ledger.writer import LedgerWriter
from quire.sync.handle import SyncHandle
from quire.sync.portal import Portal
from quire.sync.twins import twin_of


def _weight(entry: Entry) -> int:
    return len(entry.payload)


def _run_weight(run: list[Entry]) -> int:
    return sum(map(_weight, run))


@twin_of(LedgerWriter, "_writer")
class SyncLedgerWriter(SyncHandle):
    """Blocking twin of `LedgerWriter`. Safe to use from several threads.

    As a context manager it closes the ledger at the end.
    """

    def __init__(self, portal: Portal, writer: LedgerWriter) -> None:
        self._portal = portal
        self._writer = writer

    @property
    def ledger(self) -> LedgerId:
        """The ledger's id."""
        return self._writer.ledger

    @property
    def info(self) -> LedgerInfo:
        """The ledger's state, quorums and fragments, as this writer last confirmed them."""
        return self._writer.info

    @property
    def _metadata(self) -> LedgerMetadata:
        """The ledger's record, for the writer of a Spark job."""
        return self._writer._metadata

    @property
    def last_confirmed(self) -> EntryId:
        """See `LedgerWriter.last_confirmed`."""
        return self._writer.last_confirmed

    @property
    def last_pushed(self) -> EntryId:
        """See `LedgerWriter.last_pushed`."""
        return self._writer.last_pushed

    @property
    def has_ended(self) -> bool:
        """See `LedgerWriter.has_ended`."""
        return self._writer.has_ended

    @property
    def length(self) -> int:
        """See `LedgerWriter.length`."""
        return self._writer.length

    def append(self, payload: bytes) -> EntryId:
        """See `LedgerWriter.append`."""
        return self._portal.call(self._writer.append(payload))

    def append_many(self, payloads: Iterable[bytes]) -> range:
        """See `LedgerWriter.append_many`."""
        return self._portal.call(self._writer.append_many(payloads))

    def submit(self, payload: bytes) -> concurrent.futures.Future[EntryId]:
        """See `LedgerWriter.submit`. The future may be waited for in any thread."""
        return self._portal.submit(self._writer.submit(payload))

    def drain(self) -> None:
        """See `LedgerWriter.drain`."""
        self._portal.call(self._writer.drain())

    def force(self) -> EntryId:
        """See `LedgerWriter.force`."""
        return self._portal.call(self._writer.force())

    def wait_ended(self) -> None:
        """See `LedgerWriter.wait_ended`."""
        self._portal.call(self._writer.wait_ended())

    def close(self) -> None:
        """See `LedgerWriter.close`."""
        self._portal.call(self._writer.close())

    def abandon(self) -> None:
        """See `LedgerWriter.abandon`."""
        self._portal.call_plain(self._writer.abandon)


@twin_of(LedgerReader, "_reader")
class SyncLedgerReader(SyncHandle):
    """Blocking twin of `LedgerReader`. Iterators belong to one thread, the reader to all."""

    def __init__(self, portal: Portal, reader: LedgerReader) -> None:
        self._portal = portal
        self._reader = reader

    @property
    def ledger(self) -> LedgerId:
        """The ledger's id."""
        return self._reader.ledger

    @property
    def info(self) -> LedgerInfo:
        """The ledger's state, quorums and fragments, as last seen."""
        return self._reader.info

    @property
    def is_closed(self) -> bool:
        """See `LedgerReader.is_closed`."""
        return self._reader.is_closed

    def last_confirmed(self) -> EntryId:
        """See `LedgerReader.last_confirmed`."""
        return self._portal.call(self._reader.last_confirmed())

    def last_acknowledged(self) -> EntryId:
        """See `LedgerReader.last_acknowledged`."""
        return self._portal.call(self._reader.last_acknowledged())

    def read_entry(self, entry: EntryId) -> Entry:
        """See `LedgerReader.read_entry`."""
        return self._portal.call(self._reader.read_entry(entry))

    def read(self, first: EntryId = 0, last: EntryId | None = None) -> Iterator[Entry]:
        """See `LedgerReader.read`."""
        return chain.from_iterable(self.read_runs(first, last))

    def read_runs(self, first: EntryId = 0, last: EntryId | None = None) -> Iterator[list[Entry]]:
        """See `LedgerReader.read_runs`."""
        return self._portal.iterate(lambda: self._reader.read_runs(first, last), _run_weight)

    def read_unconfirmed(self, first: EntryId, last: EntryId) -> Iterator[Entry]:
        """See `LedgerReader.read_unconfirmed`."""
        return self._portal.iterate(lambda: self._reader.read_unconfirmed(first, last), _weight)

    def follow(self, first: EntryId = 0) -> Iterator[Entry]:
        """See `LedgerReader.follow`."""
        return chain.from_iterable(self.follow_runs(first))

    def follow_runs(self, first: EntryId = 0) -> Iterator[list[Entry]]:
        """See `LedgerReader.follow_runs`."""
        return self._portal.iterate(lambda: self._reader.follow_runs(first), _run_weight)

    def close(self) -> None:
        """See `LedgerReader.close`."""
        self._portal.call(self._reader.close())


@twin_of(NumberedWriter, "_writer")
class SyncNumberedWriter(SyncHandle):
    """Blocking twin of `NumberedWriter`, made of a writer that was not appended to.

    Safe to use from several threads. As a context manager it closes the ledger at the end.
    """

    def __init__(self, writer: SyncLedgerWriter, options: LedgerOptions | None = None) -> None:
        self._portal = writer._portal
        self._writer = self._portal.call_plain(lambda: NumberedWriter(writer._writer, options))

    @property
    def ledger(self) -> LedgerId:
        """See `NumberedWriter.ledger`."""
        return self._writer.ledger

    @property
    def expected(self) -> EntryId:
        """See `NumberedWriter.expected`."""
        return self._writer.expected

    def append(self, entry: EntryId, payload: bytes) -> EntryId:
        """See `NumberedWriter.append`."""
        return self._portal.call(self._writer.append(entry, payload))

    def submit(self, entry: EntryId, payload: bytes) -> concurrent.futures.Future[EntryId]:
        """See `NumberedWriter.submit`. The future may be waited for in any thread."""
        return self._portal.submit(self._writer.submit(entry, payload))

    def force(self) -> EntryId:
        """See `NumberedWriter.force`."""
        return self._portal.call(self._writer.force())

    def close(self) -> None:
        """See `NumberedWriter.close`."""
        self._portal.call(self._writer.close())

    def abandon(self) -> None:
        """See `NumberedWriter.abandon`."""
        self._portal.call_plain(self._writer.abandon)
