"""Txids: numbers that an application gives to records. A reader can start at an id.

The application chooses the meaning of an id: a time, or a number of its own. Ids never decrease
along a log. A record without an id has the id of the record before it; records before the log's
first id have none. So every record's id is defined, and all records with an id ≥ n form one stretch
up to the end.

The ids of a batch are a column (batch.py): one number when all its records have the same, else one
per record. As soon as a log has an id, every batch has the column, and the manifest stores the last
id of every sealed segment: a new leader continues from there without reading, and a search looks
into one segment only.

Pure: no clock and no I/O.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, TypeAlias

from quire.errors import InvalidRequestError, TxidOrderError

TXIDS: Final = 4
"""Kind of the column."""

NO_TXID: Final = -1
"""Stands in columns and manifests for the records in front of the first id."""

TRANSACTION_BYTES: Final = 8
"""What an id adds to a record at most; the column's frame is within `COLUMNS_RESERVE`."""

Txids: TypeAlias = tuple[int, ...]
"""The ids of a batch: none, one for all of its records, or one for each."""


def check_txid(txid: int) -> None:
    """Raises `InvalidRequestError` when it is not a valid id."""
    if type(txid) is not int or not 0 <= txid < 2**63:
        raise InvalidRequestError(f"txid {txid!r} is not a number in 0..2**63-1")


def check_order(log: str, txid: int, last: int) -> None:
    """Raises `TxidOrderError` when an id is below the one before it."""
    if txid < last:
        raise TxidOrderError(log, txid, last)


class Numbering:
    """The last id of a log, as it runs through the batches that are cut."""

    __slots__ = ("last",)

    def __init__(self, last: int = NO_TXID) -> None:
        self.last = last

    def column(self, groups: Iterable[tuple[int, int | None]]) -> bytes:
        """Return the column of a batch of groups, each with its records and id; empty for none."""
        given = list(groups)
        if self.last == NO_TXID and all(each is None for _, each in given):
            return b""
        ids: list[int] = []
        for count, txid in given:
            if txid is not None:
                self.last = txid
            ids += [self.last] * count
        return encode_txids(ids)


def encode_txids(ids: list[int]) -> bytes:
    """Return the column of records with these ids."""
    if ids[0] == ids[-1]:
        del ids[1:]
    return struct.pack(f"<{len(ids)}q", *ids)


def decode_txids(data: bytes, count: int) -> Txids:
    """Return the ids of a batch of `count` records. Raises `ValueError`."""
    values, rest = divmod(len(data), TRANSACTION_BYTES)
    if rest or values not in (1, count):
        raise ValueError(f"txids of {count} records have {len(data)} bytes")
    ids: Txids = struct.unpack(f"<{values}q", data)
    if ids[0] < NO_TXID or list(ids) != sorted(ids):
        raise ValueError("txids of a batch decrease")
    return ids


def last_of(ids: Txids) -> int:
    """Return the id of a batch's last record, `NO_TXID` when it has none."""
    return ids[-1] if ids else NO_TXID


def of_slots(ids: Txids, slots: range) -> list[int | None]:
    """Return the ids of some records of a batch."""
    if len(ids) <= 1:
        same = last_of(ids)
        return [None if same == NO_TXID else same] * len(slots)
    return [None if each == NO_TXID else each for each in ids[slots.start : slots.stop]]


def first_slot(ids: Txids, count: int, txid: int) -> int:
    """Return the first of `count` records with this id or a higher one; `count` when none has."""
    if len(ids) <= 1:
        return 0 if last_of(ids) >= txid else count
    return bisect_left(ids, txid)
