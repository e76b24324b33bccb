"""The accumulator of a leader: it collects records into batches, as in Kafka's producer.

  * The *outbox* holds the records that wait. They are added one at a time, or in groups that are
    never divided.
  * A *parcel* is one entry in flight: the encoded batch and the callers to notify. It is cut from
    whole groups, in order, at `batch_bytes` or `batch_records`, or when the outbox is empty.
  * Offsets are assigned when a parcel is cut, and never change. If its ledger fails, the same
    parcel goes to the next ledger.

The outbox reports outcomes and never awaits them. Pure: no clock, no I/O.
"""

from __future__ import annotations

from asyncio import Future
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from quire.entry import EntryId
from quire.log.leader.conditions import UNMARKED, Marks
from quire.log.leader.outcome import SINGLE, Outcome, places_from
from quire.log.manifest.ages import APART_MS
from quire.log.manifest.options import LogOptions
from quire.log.manifest.times import begin_ms
from quire.log.records.attributes import ATTRIBUTES_BYTES, NO_ATTRIBUTES, encode_attributes
from quire.log.records.batch import body_size, encode_batch
from quire.log.records.position import Appended, Position
from quire.log.records.producers import (
    COLUMNS_RESERVE,
    FORGOTTEN,
    NAME_BYTES_MAX,
    SNAPSHOT,
    SNAPSHOT_AT,
    STAMPS,
    Producers,
    ProducerSequence,
    encode_at,
    encode_columns,
    encode_stamps,
)
from quire.log.records.txids import (
    NO_TXID,
    TRANSACTION_BYTES,
    TXIDS,
    Numbering,
)

SNAPSHOT_BYTES = 8 * 1024 * 1024
"""Bytes between two snapshots of producer state.

A new leader reads at most this much, in a fraction of a second. A snapshot of 300 KiB is 4 % of it.
"""

MARKED_BYTES_MAX = 4 + 10 + 2 + NAME_BYTES_MAX + 1 + TRANSACTION_BYTES + ATTRIBUTES_BYTES
"""The most bytes that a record adds to a batch with marks, besides its payload and attributes."""

Payload: TypeAlias = bytes
Waiting: TypeAlias = tuple[Outcome, int]
"""The future to notify, and the number of its records (`SINGLE`: one)."""


@dataclass(slots=True, eq=False)
class Parcel:
    """One entry in flight. `entry` and `ack` belong to the ledger that it was last sent to."""

    payload: bytes
    first_offset: int
    records: int
    bytes: int
    timestamp_ms: int
    waiting: list[Waiting]
    txid: int = NO_TXID
    """The txid of the last record."""
    entry: int = -1
    stored: Payload = b""
    """The payload of that ledger's entry: encrypted if the log is."""
    ack: Future[EntryId] | None = None
    sent_at: float | None = None
    """The event loop's time of the first send."""

    def confirm(self, segment: int) -> None:
        """Complete the futures with the places of their records."""
        entry, first, slot = self.entry, self.first_offset, 0
        make = tuple.__new__  # the constructor of `Position`, inlined
        for future, count in self.waiting:
            if count == SINGLE:
                if not future.done():
                    place = make(Position, (segment, entry, slot))
                    future.set_result(make(Appended, (place, first + slot)))
                slot += 1
            else:
                if not future.done():
                    place = Position(segment, entry, slot)
                    future.set_result(places_from(place, first + slot, count))
                slot += count


class ProducerColumns:
    """The columns that store producer state in batches; empty for a log without producers."""

    def __init__(self, written: Producers, body_bytes_max: int) -> None:
        self._body_bytes_max = body_bytes_max
        self.written = written.copy()
        """The state after the last batch that was cut: queued records may never be written."""
        self.is_due = True
        self._at = 0
        self._since = 0

    def columns(
        self, first_offset: int, stamps: list[ProducerSequence | None], size: int
    ) -> dict[int, bytes]:
        """Return the columns of the batch at an offset, and note its producer sequences."""
        if not self.written and not any(stamps):
            return {}
        columns: dict[int, bytes] = {}
        if any(stamps):
            columns[STAMPS] = encode_stamps(stamps)
            size += len(columns[STAMPS])
        snapshot = self.written.encode() if self.is_due else b""
        forgotten = self.written.encode_forgotten() if self.is_due else b""
        whole = size + len(snapshot) + len(forgotten) + COLUMNS_RESERVE
        if self.is_due and whole <= self._body_bytes_max:
            columns[SNAPSHOT] = snapshot
            if forgotten:
                columns[FORGOTTEN] = forgotten
            self.is_due, self._at, self._since = False, first_offset, 0
        else:
            columns[SNAPSHOT_AT] = encode_at(self._at)
        self._since += size
        self.is_due = self.is_due or self._since >= SNAPSHOT_BYTES
        self.written.note_batch(first_offset, stamps)
        return columns


class Outbox:
    """Groups of records in the order they were submitted."""

    def __init__(
        self,
        *,
        epoch: int,
        next_offset: int,
        timestamp_ms: int,
        options: LogOptions,
        producers: Producers | None = None,
        txid: int = NO_TXID,
    ) -> None:
        self._body_bytes_max = options.body_bytes_max
        self.next_offset = next_offset
        self._epoch = epoch
        self._timestamp_ms = timestamp_ms
        self.obey(options)
        self._groups: deque[tuple[Sequence[bytes], int, Outcome, int, Marks]] = deque()
        self._marked = False
        self._numbering = Numbering(txid)
        self.txid = txid
        """The txid of the last record that was put."""
        self._memory = ProducerColumns(producers or Producers(), options.body_bytes_max)
        self._records = 0
        self._bytes = 0

    def obey(self, options: LogOptions) -> None:
        """Cut and compress the next batches by these options."""
        self._batch_bytes = options.batch_bytes
        self._batch_records = options.batch_records
        self._compression = options.compression

    def __len__(self) -> int:
        """Records waiting."""
        return self._records

    @property
    def has_full_batch(self) -> bool:
        """Whether the next parcel has its full size: more records would not enlarge it."""
        return self._bytes >= self._batch_bytes or self._records >= self._batch_records

    @property
    def end_offset(self) -> int:
        """The offset of the next record that is put."""
        return self.next_offset + self._records

    @property
    def has_columns(self) -> bool:
        """Whether batches may have columns."""
        return self._marked or bool(self._memory.written) or self._numbering.last != NO_TXID

    def columns_cost(self, records: int, marks: Marks) -> int:
        """Return the most bytes that columns take for records with these marks."""
        if marks is UNMARKED and not self.has_columns:
            return 0
        cost = COLUMNS_RESERVE + marks.cost(records)
        cost += ATTRIBUTES_BYTES * records if marks.attributes else 0
        is_numbered = marks.txid is not None or self.txid != NO_TXID
        return cost + TRANSACTION_BYTES * records if is_numbered else cost

    def limit_producers(self, producers_max: int, seconds: float, counted_ms: int) -> None:
        """Apply the limits of producer state to batches from now on; see `Producers.obey`."""
        self._memory.written.obey(producers_max, seconds, counted_ms)

    def begin_segment(self, begun_ms: int | None) -> None:
        """Write a snapshot of producer state into the next batch: older segments may be trimmed.

        `begun_ms` is the time at which the segment began (Unix milliseconds). It is None if the
        segment begins with parcels of the previous ledger, which have their timestamps.
        """
        self._memory.is_due = True
        if begun_ms is not None:
            self._timestamp_ms = begin_ms(self._timestamp_ms, begun_ms)

    def is_ahead(self, now_ms: int) -> bool:
        """Whether the next parcel's timestamp would be far after now.

        Then the clock of this process was set back since the segment began.
        """
        return self._timestamp_ms - now_ms > APART_MS

    def put(
        self,
        group: Sequence[bytes],
        size: int,
        outcome: Outcome,
        count: int,
        marks: Marks = UNMARKED,
    ) -> None:
        """Queue a group of `size` bytes, payloads and attributes. `count`: its records, or
        `SINGLE`.
        """
        self._groups.append((group, size, outcome, count, marks))
        if marks is not UNMARKED:
            self._marked = True
            self.txid = max(self.txid, marks.txid or NO_TXID)
        self._records += count or 1
        self._bytes += size

    def cut(self, now_ms: int) -> Parcel:
        """Take the next parcel. The outbox must not be empty.

        Timestamps never decrease in a segment. If the call raises, the outbox is unchanged.
        """
        records: list[bytes] = []
        marked: list[tuple[int, Marks]] = []
        waiting: list[Waiting] = []
        size = number = 0
        bytes_max, records_max = self._batch_bytes, self._batch_records
        has_columns = self.has_columns
        body_max = self._body_bytes_max - COLUMNS_RESERVE
        for group, group_size, outcome, count, marks in self._groups:
            number += count or 1
            size += group_size
            if records and (
                size > bytes_max
                or number > records_max
                or (has_columns and size + number * MARKED_BYTES_MAX > body_max)
            ):
                size -= group_size
                break
            if count == SINGLE:
                records.append(group[0])
            else:
                records += group
            waiting.append((outcome, count))
            if has_columns:
                marked.append((count or 1, marks))
        assert len(waiting) == 1 or (size <= bytes_max and len(records) <= records_max), (
            f"a batch of {size} bytes in {len(records)} records exceeds {bytes_max} bytes or "
            f"{records_max} records"
        )
        columns = self._columns(marked, body_size(records)) if has_columns else b""
        parcel = self._parcel(records, size, waiting, now_ms, columns)
        for _ in waiting:
            self._groups.popleft()
        return parcel

    def _columns(self, marked: list[tuple[int, Marks]], size: int) -> bytes:
        ids = self._numbering.column((count, marks.txid) for count, marks in marked)
        stamps = [marks.producer_sequence for count, marks in marked for _ in range(count)]
        attributes = self._attributes(marked)
        size += len(ids) + sum(map(len, attributes.values()))
        columns = self._memory.columns(self.next_offset, stamps, size) | attributes
        if ids:
            columns[TXIDS] = ids
        return encode_columns(columns)

    def _attributes(self, marked: list[tuple[int, Marks]]) -> dict[int, bytes]:
        if not any(marks.attributes for _, marks in marked):
            return {}
        return encode_attributes(
            [
                each
                for count, marks in marked
                for each in marks.attributes or (NO_ATTRIBUTES,) * count
            ]
        )

    def _parcel(
        self,
        records: list[bytes],
        size: int,
        waiting: list[Waiting],
        now_ms: int,
        columns: bytes,
    ) -> Parcel:
        self._records -= len(records)
        self._bytes -= size
        self._timestamp_ms = max(self._timestamp_ms, now_ms)
        first_offset = self.next_offset
        self.next_offset += len(records)
        payload = encode_batch(
            records,
            first_offset=first_offset,
            epoch=self._epoch,
            timestamp_ms=self._timestamp_ms,
            compression=self._compression,
            columns=columns,
        )
        txid = self._numbering.last
        now_ms = self._timestamp_ms
        return Parcel(payload, first_offset, len(records), size, now_ms, waiting, txid)

    def drop_all(self) -> list[Outcome]:
        """Empty the outbox and return the futures that waited in it."""
        outcomes = [each[2] for each in self._groups]
        self._groups.clear()
        self._records = self._bytes = 0
        return outcomes
