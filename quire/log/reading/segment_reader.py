"""One segment as a stream of decoded entries, checked against what the manifest says about it.

A sealed segment is read to its end. An open segment is either followed until its ledger is
closed and drained, or read up to the entries confirmed now. `is_over` says whether the segment
has ended: only then may a reader enter the next segment.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from quire.entry import Entry, EntryId
from quire.errors import (
    CorruptEntryError,
    CorruptRecordError,
    InvalidRequestError,
    NoSuchEntryError,
)
from quire.log.manifest.manifest import Segment
from quire.log.manifest.record import ManifestRecord
from quire.log.reading.source import open_source
from quire.log.records.batch import (
    Batch,
    BatchHeader,
    decode_batch,
    decode_header,
    place_batch,
    place_header,
)
from quire.log.records.encryption import Decryption, last_txid_of
from quire.log.records.keyring import Keyring
from quire.log.records.position import Position, Record
from quire.log.segment_store.port import SegmentSource, SegmentStore


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records of one entry, from `slot` on, as columns; records are made when asked for."""

    segment: int
    entry: EntryId
    slot: int
    batch: Batch

    def __len__(self) -> int:
        return len(self.batch) - self.slot

    @property
    def position(self) -> Position:
        """Position of the first record."""
        return Position(self.segment, self.entry, self.slot)

    @property
    def after(self) -> Position:
        """The position to continue from."""
        return Position(self.segment, self.entry + 1, 0)

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.batch.header.first_offset + self.slot

    @property
    def next_offset(self) -> int:
        """Offset of the record after the last one."""
        return self.batch.header.next_offset

    def payloads(self) -> list[bytes]:
        """Return the payloads.

        Returns:
            The bytes of each record, in order.
        """
        return self.batch.payloads()[self.slot :]

    def arrow_buffers(self) -> tuple[array[int], memoryview]:
        """Return an Arrow binary array of the payloads, without copying them.

        Returns:
            Its offsets (int32, one more than records) and its data.
        """
        offsets, data = self.batch.arrow_buffers()
        return offsets[self.slot :], data

    def records(self) -> list[Record]:
        """Return the records as values.

        Returns:
            The records, in order.
        """
        header, segment, entry = self.batch.header, self.segment, self.entry
        first, epoch, timestamp_ms = header.first_offset, header.epoch, header.timestamp_ms
        payloads = enumerate(self.payloads(), self.slot)
        if not self.batch.txids and not self.batch.attributes:
            return [
                Record(Position(segment, entry, slot), first + slot, epoch, timestamp_ms, payload)
                for slot, payload in payloads
            ]
        slots = range(self.slot, header.count)
        txids, attributes = self.batch.txids_of(slots), self.batch.attributes.of_slots(slots)
        return [
            Record(
                Position(segment, entry, slot),
                *(first + slot, epoch, timestamp_ms, payload, txid),
                *given,
            )
            for (slot, payload), txid, given in zip(payloads, txids, attributes, strict=True)
        ]


class SegmentReader:
    """Reads one segment from an entry on. Made by `open_segment`."""

    def __init__(
        self, segment: Segment, ledger: SegmentSource, decryption: Decryption, *, follow: bool
    ) -> None:
        self._decryption = decryption
        self.segment = segment
        self.is_over = segment.end is not None or follow
        self._ledger = ledger
        self._follow = follow and segment.end is None
        self._runs: AsyncGenerator[list[Entry], None] | None = None
        self._entries: deque[Entry] = deque()

    async def start(self, first: EntryId) -> None:
        """Begin at an entry. Raises `InvalidRequestError`, or `next` does, for an entry that no
        position was ever returned for.
        """
        if self._follow:
            self._runs = self._ledger.follow_runs(first)
            return
        last = self.segment.last_entry
        if last is None:
            last = await self._ledger.last_confirmed()
            self.is_over = self._ledger.is_closed
        if first <= last:
            self._runs = self._ledger.read_runs(first, last)
        elif self.is_over:
            self._check_given(first, last)

    async def next(self) -> tuple[EntryId, Batch] | None:
        """Return the next entry and its batch, None at the end."""
        if not await self.fetch():
            return None
        entry = self._entries.popleft()
        return entry.entry, self._decode(entry)

    async def fetch(self) -> bool:
        """Have the next entries at hand. Return whether there are any; raises as `next`."""
        while not self._entries:
            if self._runs is None:
                return False
            try:
                run = await anext(self._runs, None)
            except NoSuchEntryError as error:
                if self._ledger.is_closed:
                    self._check_given(error.entry, await self._ledger.last_confirmed())
                raise
            if run is None:
                return False
            self._entries.extend(run)
        return True

    def _check_given(self, entry: EntryId, last: EntryId) -> None:
        """Raise for an entry so far after the last one that no reader can have reached it."""
        if entry > last + 1:
            number = self.segment.number
            raise InvalidRequestError(
                f"log {self._decryption.log!r} has no position {Position(number, entry, 0)}: "
                f"segment {number} ends at {Position(number, last + 1, 0)}"
            )

    def raw_runs(self) -> AsyncGenerator[list[Entry], None]:
        """Yield all entries of a sealed segment as they are stored, in lists."""
        assert self.segment.last_entry is not None
        return self._ledger.read_runs(0, self.segment.last_entry)

    async def header(self, entry: EntryId) -> BatchHeader:
        """Return the header of one confirmed entry."""
        payload = await self._ledger.read_head(entry)
        header = decode_header(payload, self.segment.ledger, entry)
        header = place_header(header, self.segment.base)
        self._check(entry, header)
        return header

    async def batch(self, entry: EntryId) -> Batch:
        """Return the batch of one confirmed entry."""
        return self._decode(await self._ledger.read_entry(entry))

    async def last_txid(self, entry: EntryId) -> int:
        """Return the txid of an entry's last record, for which no key is needed."""
        base = self.segment.base
        if base is not None:
            return base.txid
        payload = (await self._ledger.read_entry(entry)).payload
        self._check(entry, decode_header(payload, self.segment.ledger, entry))
        return last_txid_of(payload, self.segment.ledger, entry)

    def _decode(self, entry: Entry) -> Batch:
        segment, ledger = self.segment, entry.ledger
        plain = self._decryption.open(entry.payload, segment.number, ledger, entry.entry)
        batch = place_batch(decode_batch(plain, ledger, entry.entry), segment.base)
        self._check(entry.entry, batch.header)
        return batch

    @property
    def is_closed(self) -> bool:
        """Whether nothing will ever be added to the segment."""
        return self.segment.end is not None or self._ledger.is_closed

    async def last_acknowledged(self) -> EntryId:
        """Return the last entry, at or after every entry acknowledged before the call."""
        last = self.segment.last_entry
        return await self._ledger.last_acknowledged() if last is None else last

    async def last_confirmed(self) -> EntryId:
        """Return the last entry that can be read now, −1 for none."""
        last = self.segment.last_entry
        return await self._ledger.last_confirmed() if last is None else last

    def _check(self, entry: EntryId, header: BatchHeader) -> None:
        segment = self.segment
        if header.epoch != segment.epoch:
            raise CorruptEntryError(
                segment.ledger, entry, f"epoch {header.epoch} in a segment of {segment.epoch}"
            )
        first = segment.first_offset
        if first is not None and (
            header.first_offset < first + entry or (entry == 0 and header.first_offset != first)
        ):
            raise CorruptEntryError(
                segment.ledger,
                entry,
                f"offset {header.first_offset} in a segment that starts at {first}",
            )

    async def close(self) -> None:
        """Release the ledger. Must not be called while `next` is under way."""
        if self._runs is not None:
            await self._runs.aclose()
        await self._ledger.close()


async def open_segment(
    segments: SegmentStore,
    segment: Segment,
    record: ManifestRecord,
    *,
    password: bytes,
    keyring: Keyring | None,
    follow: bool,
) -> SegmentReader:
    """Open a segment, wherever it lies, without disturbing its writer.

    Raises the errors of `open_source`, and `CorruptRecordError` naming the manifest's `record`
    when manifest and ledger disagree about the end of a sealed segment.
    """
    last = segment.last_entry
    ledger = await open_source(segments, segment.ledger, segment.cold, last, segment.base, password)
    found = ledger.facts.last_entry
    if last is not None and found != last:
        await ledger.close()
        raise CorruptRecordError(
            record.path,
            f"segment {segment.number} ends at {last}, its ledger {segment.ledger} at {found}",
        )
    return SegmentReader(segment, ledger, Decryption(record.name, keyring), follow=follow)
