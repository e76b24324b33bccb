"""The outbox: records that wait for the next entry, and the entries that wait for their ack.

A *parcel* is one entry on its way: its payload, and whom to tell. Records are put in one at a time
or in groups that may not be divided; a parcel is cut from whole groups, in order, at `batch_bytes`
or `batch_records`, and at what there is. Offsets are given when a parcel is cut and never change
after that: when its ledger fails, the same parcel goes to the next one.

Futures are only completed here, never awaited; no clock, no I/O.
"""

from __future__ import annotations

from asyncio import Future
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from quire.entry import EntryId
from quire.log.batch import Compression, encode_batch
from quire.log.position import Position

SINGLE = 0
"""Count of a group that is one record, whose future gets a position and not a list of them."""

Waiting: TypeAlias = "tuple[Future[Any], int]"
"""A future and how many records it stands for (`SINGLE`: one)."""


@dataclass(slots=True, eq=False)
class Parcel:
    """One entry on its way; `entry` and `ack` are those of the ledger it was last sent to."""

    payload: bytes
    first_offset: int
    records: int
    bytes: int
    timestamp_ms: int
    waiting: list[Waiting]
    entry: int = -1
    ack: Future[EntryId] | None = None

    def confirm(self, segment: int) -> None:
        """Tell everybody where their records are."""
        entry, slot = self.entry, 0
        for future, count in self.waiting:
            if count == SINGLE:
                if not future.done():
                    future.set_result(Position(segment, entry, slot))
                slot += 1
            else:
                if not future.done():
                    slots = range(slot, slot + count)
                    future.set_result([Position(segment, entry, each) for each in slots])
                slot += count


class Outbox:
    """Groups of records in the order they were submitted."""

    def __init__(
        self,
        *,
        epoch: int,
        next_offset: int,
        timestamp_ms: int,
        batch_bytes: int,
        batch_records: int,
        compression: Compression,
    ) -> None:
        self.next_offset = next_offset
        self._epoch = epoch
        self._timestamp_ms = timestamp_ms
        self._batch_bytes = batch_bytes
        self._batch_records = batch_records
        self._compression = compression
        self._groups: deque[tuple[Sequence[bytes], int, Future[Any], int]] = deque()
        self._records = 0
        self._bytes = 0

    def __len__(self) -> int:
        """Records waiting."""
        return self._records

    @property
    def has_full_batch(self) -> bool:
        """True when waiting for more records would not make the next parcel larger."""
        return self._bytes >= self._batch_bytes or self._records >= self._batch_records

    def put(self, group: Sequence[bytes], size: int, future: Future[Any], count: int) -> None:
        """Queue a group of `size` payload bytes whose future is completed as `count` says."""
        self._groups.append((group, size, future, count))
        self._records += len(group)
        self._bytes += size

    def cut(self, now_ms: int) -> Parcel:
        """Take the next parcel. The outbox must not be empty. Time never runs backward in a log."""
        records: list[bytes] = []
        waiting: list[Waiting] = []
        size = 0
        groups = self._groups
        while groups:
            group, group_size, future, count = groups[0]
            if records and (
                size + group_size > self._batch_bytes
                or len(records) + len(group) > self._batch_records
            ):
                break
            groups.popleft()
            records += group
            waiting.append((future, count))
            size += group_size
        return self._parcel(records, size, waiting, now_ms)

    def _parcel(
        self, records: list[bytes], size: int, waiting: list[Waiting], now_ms: int
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
        )
        return Parcel(payload, first_offset, len(records), size, self._timestamp_ms, waiting)

    def drop_all(self) -> list[Future[Any]]:
        """Empty the outbox and return the futures of what was in it."""
        futures = [future for _, _, future, _ in self._groups]
        self._groups.clear()
        self._records = self._bytes = 0
        return futures
