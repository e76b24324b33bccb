"""A reader of logs over the ledgers of a client.

async with quire.connect("zk://zoo1/?ledgers=bookkeeper:/ledgers") as client:
    async for record in read_dlog(client, "/messaging/orders"):
        print(record.dlsn, record.txid, record.payload)

A log is read in pieces: entries of a segment, from one to another. A piece is a small value that
can be sent to other processes, and `read_piece` reads it there. So a source of Spark is

    partitions = [piece async for piece in dlog_pieces(client, log, entries_max=10_000)]
    ...
    async for record in read_piece(client, partitions[number]): ...
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from quire.bookkeeper.dlog.listing import list_segments
from quire.bookkeeper.dlog.names import DlogName, Dlsn
from quire.bookkeeper.dlog.records import Positions, decode_records
from quire.bookkeeper.dlog.segments import DlogSegment
from quire.bookkeeper.protobuf import MalformedError
from quire.bookkeeper.records import ApacheRecords
from quire.client_ledgers import LedgerClient
from quire.entry import Entry, EntryId
from quire.errors import (
    ConfigurationError,
    CorruptEntryError,
    CorruptRecordError,
    InvalidRequestError,
    UnreadableContentError,
)

AT_ONCE: Final = 1024
"""Records of one entry between two turns of the event loop. A packed entry of 75 KB can hold 10⁹
empty records: a caller that only counts them could not be cancelled before the last one.
"""

_RECOVERY: Final = (
    "its end is unknown: open the log as a writer of DistributedLog, which recovers it, or begin "
    "after it"
)


@dataclass(frozen=True, slots=True)
class DlogRecord:
    """A record of a log."""

    dlsn: Dlsn
    txid: int
    """The transaction id that the application gave it."""
    payload: bytes
    sequence: int | None
    """Its number in the log, from 0; None where the log's writer does not count."""


@dataclass(frozen=True, slots=True)
class DlogPiece:
    """Consecutive entries of one segment, to be read by one process. It can be pickled.

    The pieces of a log, in the order of `dlog_pieces`, have the log's records in their order.
    """

    log: str
    segment: int
    ledger: int
    first: EntryId
    last: EntryId
    """Confirmed when the piece was made, so each reading has the same records."""
    begin: Dlsn
    """The first record that is wanted; entries may hold earlier ones."""
    enveloped: bool
    """Whether entries are packets of records (records.py)."""
    start: int | None
    """The sequence number of the segment's first record."""


async def read_dlog(
    client: LedgerClient, log: str, *, start: Dlsn | None = None, password: bytes = b""
) -> AsyncGenerator[DlogRecord, None]:
    """Yield the records of a log that are confirmed now.

    Args:
        client: a client of the cluster's ledgers, which may be opened to be read only.
        log: /namespace/name, below the root of the store's URI; or distributedlog://…, with the
            servers of that URI.
        start: the first record; `Dlsn.next` of the last record read continues after it. None for
            all records that the log keeps.
        password: DistributedLog's `digestPw`, empty by default.

    Yields:
        The records in the order of their DLSNs. Control records, which writers make for
        themselves, and truncated records are left out.

    Raises:
        NoSuchDlogError: ZooKeeper has no record of the log.
        ConfigurationError: the namespace has other ledgers or servers than the client.
        UnreadableContentError: a record of a segment has an unknown version, the namespace is
            federated or has its ledgers in another ZooKeeper, or an open segment is not the last.
        CorruptEntryError: an entry is damaged, or records are missing before one.
        CorruptRecordError: a record of ZooKeeper is damaged, a segment is missing, or a ledger
            is shorter than its segment says.
        UnreadableError: too few copies can be read.

    Cancellation: ends the reading only.

    Guarantees: no ledger is fenced. Unreadable data are an error, never passed over. An open
        segment is read up to the entry that was confirmed last when the reading reached it.
    """
    pieces = dlog_pieces(client, log, start=start, password=password)
    async with aclosing(pieces):
        async for piece in pieces:
            async with aclosing(read_piece(client, piece, password=password)) as records:
                async for record in records:
                    yield record


async def find_txid(
    client: LedgerClient, log: str, txid: int, *, password: bytes = b""
) -> Dlsn | None:
    """Return where the first record with a transaction id, or a higher one, is.

    Args:
        client: as for `read_dlog`.
        log: as for `read_dlog`.
        txid: the transaction id.
        password: as for `read_dlog`.

    Returns:
        The record's DLSN, for `start`; None if no confirmed record has such an id. Segments with a
        lower last id are not read: ids of a log ascend.

    Raises:
        QuireError: as `read_dlog`.

    Cancellation: ends the search only.
    """
    return await _find(
        client,
        log,
        password,
        lambda segment: segment.last_txid is None or segment.last_txid >= txid,
        lambda record: record.txid >= txid,
    )


async def find_sequence(
    client: LedgerClient, log: str, sequence: int, *, password: bytes = b""
) -> Dlsn | None:
    """Return where the first record with a sequence number, or a higher one, is.

    Args:
        client: as for `read_dlog`.
        log: as for `read_dlog`.
        sequence: the sequence number, from 0.
        password: as for `read_dlog`.

    Returns:
        The record's DLSN, for `start`; None if no confirmed record has such a number. Segments
        with lower numbers, or without numbers, are not read.

    Raises:
        QuireError: as `read_dlog`.

    Cancellation: ends the search only.
    """

    def may_have(segment: DlogSegment) -> bool:
        if segment.start is None:
            return False
        return not segment.is_complete or segment.start + segment.count > sequence

    return await _find(
        client,
        log,
        password,
        may_have,
        lambda record: record.sequence is not None and record.sequence >= sequence,
    )


async def _find(
    client: LedgerClient,
    log: str,
    password: bytes,
    may_have: Callable[[DlogSegment], bool],
    is_wanted: Callable[[DlogRecord], bool],
) -> Dlsn | None:
    """Return where the first wanted record is, from the first segment on that may have it."""
    segments = await _segments(client, DlogName.parse(log))
    begin = next((segment.begin for segment in segments if may_have(segment)), None)
    if begin is None:
        return None
    async with aclosing(read_dlog(client, log, start=begin, password=password)) as records:
        async for record in records:
            if is_wanted(record):
                return record.dlsn
    return None


async def dlog_pieces(
    client: LedgerClient,
    log: str,
    *,
    start: Dlsn | None = None,
    entries_max: int | None = None,
    password: bytes = b"",
) -> AsyncGenerator[DlogPiece, None]:
    """Yield the pieces of a log that are confirmed now, in their order.

    Args:
        client: as for `read_dlog`.
        log: as for `read_dlog`.
        start: the first record that is wanted.
        entries_max: the most entries of a piece, 1 or more; None: a segment is one piece.
        password: as for `read_dlog`.

    Yields:
        The pieces; none for a segment without confirmed entries.

    Raises:
        QuireError: as `read_dlog`, but for what entries hold.
        InvalidRequestError: `entries_max` is below 1.

    Cancellation: ends the listing only.

    Guarantees: no ledger is fenced.
    """
    if entries_max is not None and entries_max < 1:
        raise InvalidRequestError(f"entries_max={entries_max}: a piece has at least 1 entry")
    segments = whole_segments(client, log, start=start, password=password)
    async with aclosing(segments):
        async for whole in segments:
            step = entries_max or max(1, whole.last - whole.first + 1)
            for first in range(whole.first, whole.last + 1, step):
                yield replace(whole, first=first, last=min(whole.last, first + step - 1))


async def whole_segments(
    client: LedgerClient, log: str, *, start: Dlsn | None = None, password: bytes = b""
) -> AsyncGenerator[DlogPiece, None]:
    """Yield a piece for each segment of a log, in their order.

    The segments are listed once. A segment's end is asked for when its piece is wanted.

    Args:
        client: as for `read_dlog`.
        log: as for `read_dlog`.
        start: the first record that is wanted.
        password: as for `read_dlog`.

    Yields:
        The pieces. A segment without confirmed entries, or with entries before `start` only, has a
        piece without entries: its `last` is `first` − 1.

    Raises:
        QuireError: as `dlog_pieces`.

    Cancellation: ends the listing only.

    Guarantees: as `dlog_pieces`.
    """
    name = DlogName.parse(log)
    segments = await _segments(client, name)
    for number, segment in enumerate(segments):
        begin = segment.begin if start is None else max(segment.begin, start)
        if begin.segment > segment.number:
            continue
        end, is_final = await _end(client, segment, segments[number + 1 :], password)
        yield DlogPiece(
            log=name.path,
            segment=segment.number,
            ledger=segment.ledger,
            first=begin.entry,
            last=max(end, begin.entry - 1),
            begin=begin,
            enveloped=segment.is_enveloped,
            start=segment.start,
        )
        if not is_final:  # later segments may hold records by now, and so may this one
            return


async def read_piece(
    client: LedgerClient, piece: DlogPiece, *, password: bytes = b""
) -> AsyncGenerator[DlogRecord, None]:
    """Yield the records of a piece. Any client of the same cluster may read it.

    Args:
        client: as for `read_dlog`.
        piece: one of `dlog_pieces`.
        password: as for `read_dlog`.

    Yields:
        The records in their order.

    Raises:
        CorruptEntryError: an entry is damaged, or records are missing before one.
        NoSuchLedgerError: the segment was removed since.
        UnreadableError: too few copies can be read.

    Cancellation: ends the reading only.

    Guarantees: the ledger is not fenced. Memory holds the reader's read-ahead and an entry
        unpacked, twice 16 MiB at most.
    """
    reader = await client.open_ledger_without_recovery(piece.ledger, password=password)
    is_whole = piece.first == 0 and piece.begin <= Dlsn(piece.segment, 0, 0)
    positions = Positions(from_first=is_whole)
    try:
        # confirmed when the piece was made, though bookies that answer now may not know it
        async with aclosing(reader.read_unconfirmed(piece.first, piece.last)) as entries:
            async for entry in entries:
                for number, record in enumerate(_records(piece, positions, entry), 1):
                    yield record
                    if number % AT_ONCE == 0:
                        await asyncio.sleep(0)
    finally:
        await reader.close()


def _records(piece: DlogPiece, positions: Positions, entry: Entry) -> Iterator[DlogRecord]:
    try:
        for packed in decode_records(entry.payload, enveloped=piece.enveloped):
            dlsn = Dlsn(piece.segment, entry.entry, packed.slot)
            if dlsn < piece.begin:
                continue
            positions.take(packed)
            if packed.is_end:
                continue
            sequence = None
            if piece.start is not None and packed.position > 0:
                sequence = piece.start + packed.position - 1
            yield DlogRecord(dlsn, packed.txid, packed.payload, sequence)
    except MalformedError as error:
        place = f"in segment {piece.segment} of log {piece.log}, {error}"
        raise CorruptEntryError(entry.ledger, entry.entry, place) from error


async def _segments(client: LedgerClient, name: DlogName) -> Sequence[DlogSegment]:
    records = client._catalog.records
    if not isinstance(records, ApacheRecords):
        raise ConfigurationError(
            f"the store {client.store_uri} has quire's own ledgers: name BookKeeper's, as in "
            "zk://zoo1:2181/?ledgers=bookkeeper:/ledgers"
        )
    return await list_segments(client._store, records.root, name)


async def _end(
    client: LedgerClient, segment: DlogSegment, newer: Sequence[DlogSegment], password: bytes
) -> tuple[EntryId, bool]:
    """Return the last entry of a segment that is certain, −1 for none, and whether it is final."""
    reader = await client.open_ledger_without_recovery(segment.ledger, password=password)
    try:
        last = await reader.last_confirmed()
        if segment.is_complete and last < segment.last_entry:
            raise CorruptRecordError(
                segment.path,
                f"ledger {segment.ledger} ends with entry {last}, and the segment with entry "
                f"{segment.last_entry}",
            )
        # A writer makes a segment before it completes the last one, but does not write there yet.
        if not segment.is_complete and await _has_entries(client, newer, password):
            last = await reader.last_confirmed()
            if not reader.is_closed:
                raise UnreadableContentError(
                    f"segment {segment.path}",
                    f"is open, and segment {newer[-1].number} after it has records",
                    _RECOVERY,
                )
        return last, segment.is_complete or reader.is_closed
    finally:
        await reader.close()


async def _has_entries(
    client: LedgerClient, segments: Sequence[DlogSegment], password: bytes
) -> bool:
    for segment in segments:
        reader = await client.open_ledger_without_recovery(segment.ledger, password=password)
        try:
            if await reader.last_confirmed() >= 0:
                return True
        finally:
            await reader.close()
    return False
