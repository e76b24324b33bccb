"""Producers: which records of a log are already in it, so that retries are idempotent.

A producer numbers its records: a *stamp* is the producer's name and a sequence number that grows.
The leader remembers the last `WINDOW` numbers of each of the last `producers_max` producers. A
number it remembers is a duplicate, one above all of them is new, anything else is a conflict.

The numbers of a producer beyond `producers_max` are forgotten, the longest silent first; a
fingerprint of its name stays. Each number of a forgotten producer is a conflict: the leader cannot
tell a new append from a retry. At `FORGOTTEN_MAX` fingerprints the oldest leaves, if it is older
than `producers_seconds` in the time that the log counts (manifest/ages.py: no single clock
decides); otherwise a new producer is rejected.

The memory is kept in the log itself, in columns of batches (batch.py):

    stamps        producer and number of every record of the batch
    snapshot      the memory as it was before the batch
    snapshot at   offset of the batch with the last snapshot
    forgotten     fingerprints of forgotten producers, beside a snapshot

As soon as a log has a producer, every batch has one of the last two. So a new leader reads the last
batch and then, at most, the batches since the last snapshot. Offsets are used throughout: a record
has its offset before it is sent, and keeps it when its ledger fails.

Pure: no clock and no I/O.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from quire.checked import is_utf8
from quire.errors import (
    ForgottenProducerError,
    InvalidRequestError,
    SequenceConflictError,
    TooManyProducersError,
)

WINDOW: Final = 16
"""Numbers remembered per producer: how many it may have under way and send again."""

PRODUCERS_MAX: Final = 1000
"""Producers remembered by default; at 452 bytes each at worst a snapshot is an eighth of the
largest entry.
"""

PRODUCERS_LIMIT: Final = 4000
"""Largest `producers_max`: a snapshot stays below half of the largest entry."""

FORGOTTEN_MAX: Final = 20_000
"""Fingerprints of forgotten producers; at 12 bytes each 240 KB beside a snapshot."""

PRODUCER_SECONDS: Final = 7 * 24 * 3600.0
"""The shortest time that a fingerprint is kept, by default."""

NAME_BYTES_MAX: Final = 128

STAMPS, SNAPSHOT, SNAPSHOT_AT, FORGOTTEN = 1, 2, 3, 5

_COLUMN: Final = struct.Struct("<BI")
_NONE: Final = 0xFFFF
_ROW: Final = struct.Struct("<qqI")
_AT: Final = struct.Struct("<q")
_FORGOTTEN: Final = struct.Struct("<QI")
_U16: Final = struct.Struct("<H")

COLUMNS_RESERVE: Final = 64
"""Bytes that `SNAPSHOT_AT` and the frames of `STAMPS` and of other columns take."""


class ProducerSequence(NamedTuple):
    """A producer's name and its sequence number for an append. The application chooses both."""

    producer: str
    sequence: int

    def check(self) -> None:
        """Check that the value can be stored.

        Raises:
            InvalidRequestError: the name or the number cannot be stored.
        """
        check_producer(self.producer)
        if type(self.sequence) is not int or not 0 <= self.sequence < 2**63:
            raise InvalidRequestError(f"sequence {self.sequence!r} is not a number in 0..2**63-1")

    def cost(self, records: int) -> int:
        """Return the bytes that it adds to a batch at most.

        Args:
            records: how many records have it.

        Returns:
            A number of bytes.
        """
        return 2 + len(self.producer.encode()) + 10 * records


def check_producer(name: object) -> None:
    """Raise `InvalidRequestError` for a name that no producer can have."""
    if not isinstance(name, str) or not is_utf8(name):
        raise InvalidRequestError(f"producer {name!r} is not text")
    size = len(name.encode())
    if not 0 < size <= NAME_BYTES_MAX:
        raise InvalidRequestError(
            f"producer {name!r} has {size} bytes, 1 to {NAME_BYTES_MAX} are allowed"
        )


class Numbered(NamedTuple):
    """One append of a producer: its number, and which offsets it got."""

    sequence: int
    offset: int
    records: int


class Producers:
    """The memory of producers, longest silent first."""

    def __init__(self) -> None:
        self._windows: dict[str, deque[Numbered]] = {}
        self._forgotten: dict[int, int] = {}
        """Fingerprint → counted seconds of the forgetting; the oldest first."""
        self._max: int | None = None
        self._seconds = PRODUCER_SECONDS
        self._now_s = 0

    def __bool__(self) -> bool:
        return bool(self._windows or self._forgotten)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Producers) and (
            (self._windows, self._forgotten) == (other._windows, other._forgotten)
        )

    __hash__ = None  # type: ignore[assignment]

    def find(self, producer_sequence: ProducerSequence) -> Numbered | None:
        """Return the append that has this producer sequence, None when it is a new one.

        Raises `SequenceConflictError` when the number is neither new nor remembered,
        `ForgottenProducerError` when the producer was forgotten, and `TooManyProducersError` when
        a new producer would make the memory drop a fingerprint too early.
        """
        window = self._windows.get(producer_sequence.producer)
        if window is None:
            self._check_new(producer_sequence)
            return None
        if producer_sequence.sequence > window[-1].sequence:
            return None
        for numbered in window:
            if numbered.sequence == producer_sequence.sequence:
                return numbered
        raise SequenceConflictError(
            producer_sequence.producer, producer_sequence.sequence, window[-1].sequence
        )

    def last(self, producer: str) -> int | None:
        """Return the last number of a producer, None if it has none.

        Raises `ForgottenProducerError` when the producer was forgotten, and
        `InvalidRequestError` for a name that no producer can have.
        """
        check_producer(producer)
        window = self._windows.get(producer)
        if window is not None:
            return window[-1].sequence
        if fingerprint(producer) in self._forgotten:
            raise ForgottenProducerError(producer)
        return None

    def note(self, producer_sequence: ProducerSequence, offset: int, count: int) -> None:
        """Remember an append. Its number must be new, or continue the append noted last."""
        window = self._windows.pop(producer_sequence.producer, None) or deque(maxlen=WINDOW)
        if window and window[-1].sequence == producer_sequence.sequence:
            last = window.pop()
            window.append(last._replace(records=last.records + count))
        else:
            window.append(Numbered(producer_sequence.sequence, offset, count))
        self._windows[producer_sequence.producer] = window
        self._shrink()

    def _check_new(self, producer_sequence: ProducerSequence) -> None:
        if fingerprint(producer_sequence.producer) in self._forgotten:
            raise ForgottenProducerError(producer_sequence.producer, producer_sequence.sequence)
        is_full = self._max is not None and len(self._windows) >= self._max
        if is_full and len(self._forgotten) >= FORGOTTEN_MAX and not self._is_oldest_expired():
            known = len(self._windows) + len(self._forgotten)
            raise TooManyProducersError(producer_sequence.producer, known, self._seconds)

    def _is_oldest_expired(self) -> bool:
        oldest = next(iter(self._forgotten.values()))
        return self._now_s - oldest >= self._seconds

    def obey(self, producers_max: int, seconds: float, counted_ms: int) -> None:
        """From now on forget producers as a log's options say. `counted_ms` is the log's counted
        time.

        Without this call the memory forgets nothing, as when it is read from a log. A forgetting
        time that lies in the future, by a wall clock or another count, counts from now on.
        """
        self._max, self._seconds = producers_max, seconds
        now_s = self._now_s = max(self._now_s, counted_ms // 1000)
        self._forgotten = {name: min(each, now_s) for name, each in self._forgotten.items()}
        self._shrink()

    def _shrink(self) -> None:
        while self._max is not None and len(self._windows) > self._max:
            name = next(iter(self._windows))
            del self._windows[name]
            self._forgotten[fingerprint(name)] = self._now_s
            if len(self._forgotten) > FORGOTTEN_MAX and self._is_oldest_expired():
                del self._forgotten[next(iter(self._forgotten))]

    def copy(self) -> Producers:
        """Return a memory of its own with the same content, which forgets in the same way."""
        other = Producers()
        other._forgotten = dict(self._forgotten)
        other._max, other._seconds, other._now_s = self._max, self._seconds, self._now_s
        other._windows = {name: window.copy() for name, window in self._windows.items()}
        return other

    def encode(self) -> bytes:
        """Return the content of a snapshot column."""
        parts: list[bytes] = []
        for name, window in self._windows.items():
            parts += [_packed_name(name), _U16.pack(len(window))]
            parts += [_ROW.pack(*numbered) for numbered in window]
        return b"".join(parts)

    def encode_forgotten(self) -> bytes:
        """Return the content of a `FORGOTTEN` column; empty when nothing was forgotten."""
        return b"".join(_FORGOTTEN.pack(*each) for each in self._forgotten.items())

    @classmethod
    def decode(cls, data: bytes, forgotten: bytes = b"") -> Producers:
        """Return the memory of a snapshot and a `FORGOTTEN` column.

        Raises `ValueError` for columns that do not add up.
        """
        producers, at = cls(), 0
        if len(forgotten) % _FORGOTTEN.size:
            raise ValueError(f"forgotten producers have {len(forgotten)} bytes")
        producers._forgotten = dict(_FORGOTTEN.iter_unpack(forgotten))
        while at < len(data):
            name, at = _unpack_name(data, at)
            (size,) = _unpack(_U16, data, at)
            at += _U16.size
            rows = [_unpack(_ROW, data, at + each * _ROW.size) for each in range(size)]
            at += size * _ROW.size
            producers._windows[name] = deque((Numbered(*row) for row in rows), maxlen=WINDOW)
        return producers

    def note_batch(self, first_offset: int, stamps: Sequence[ProducerSequence | None]) -> None:
        """Remember the stamps of a batch that was read."""
        for offset, producer_sequence in enumerate(stamps, first_offset):
            if producer_sequence is not None:
                self.note(producer_sequence, offset, 1)


def fingerprint(producer: str) -> int:
    """Return the 64 bits that stay of a forgotten producer's name."""
    return int.from_bytes(blake2b(producer.encode(), digest_size=8).digest(), "little")


def encode_columns(columns: dict[int, bytes]) -> bytes:
    """Return optional columns as a batch holds them; empty for none."""
    return b"".join(_COLUMN.pack(kind, len(data)) + data for kind, data in sorted(columns.items()))


def decode_columns(data: bytes) -> dict[int, bytes]:
    """Return the columns of a batch by kind, unknown ones included. Raises `ValueError`."""
    columns: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        kind, size = _unpack(_COLUMN, data, at)
        at += _COLUMN.size + size
        if at > len(data):
            raise ValueError(f"column {kind} of {size} bytes is cut off")
        columns[kind] = data[at - size : at]
    return columns


def encode_stamps(stamps: Sequence[ProducerSequence | None]) -> bytes:
    """Return the stamps of a batch's records: a table of names, then two columns."""
    names = sorted(
        {producer_sequence.producer for producer_sequence in stamps if producer_sequence}
    )
    places = {name: place for place, name in enumerate(names)}
    indices = [
        places[producer_sequence.producer] if producer_sequence else _NONE
        for producer_sequence in stamps
    ]
    numbers = [
        producer_sequence.sequence if producer_sequence else 0 for producer_sequence in stamps
    ]
    table = b"".join(_packed_name(name) for name in names)
    count = len(stamps)
    return _U16.pack(len(names)) + table + struct.pack(f"<{count}H{count}q", *indices, *numbers)


def decode_stamps(data: bytes, count: int) -> list[ProducerSequence | None]:
    """Return the producer sequence of each of `count` records.

    Raises `ValueError` when the data does not add up.
    """
    (size,) = _unpack(_U16, data, 0)
    names, at = [], _U16.size
    for _ in range(size):
        name, at = _unpack_name(data, at)
        names.append(name)
    rest = struct.Struct(f"<{count}H{count}q")
    if len(data) != at + rest.size:
        raise ValueError(f"stamps of {count} records have {len(data)} bytes")
    values = rest.unpack_from(data, at)
    return list(_stamps(names, values[:count], values[count:]))


def _stamps(
    names: list[str], indices: Sequence[int], numbers: Sequence[int]
) -> Iterator[ProducerSequence | None]:
    for index, number in zip(indices, numbers, strict=True):
        if index != _NONE and index >= len(names):
            raise ValueError(f"stamp names producer {index} of {len(names)}")
        yield None if index == _NONE else ProducerSequence(names[index], number)


def encode_at(offset: int) -> bytes:
    """Return the content of a `SNAPSHOT_AT` column."""
    return _AT.pack(offset)


def decode_at(data: bytes) -> int:
    """Return the offset in a `SNAPSHOT_AT` column. Raises `ValueError`."""
    offset: int = _unpack(_AT, data, 0)[0]
    return offset


def _packed_name(name: str) -> bytes:
    data = name.encode()
    return _U16.pack(len(data)) + data


def _unpack_name(data: bytes, at: int) -> tuple[str, int]:
    (size,) = _unpack(_U16, data, at)
    end = at + _U16.size + size
    return data[at + _U16.size : end].decode(), end


def _unpack(layout: struct.Struct, data: bytes, at: int) -> tuple[int, ...]:
    if at + layout.size > len(data):
        raise ValueError("columns of a batch end too early")
    return layout.unpack_from(data, at)
