"""Attributes: the key, the headers and the event time that an application gives a record.

All three are optional, and each is a column of a batch (batch.py): a batch of records without any
has none of the columns, and costs nothing more. The layout is that of Arrow arrays, little-endian:

    keys          | bitmap of the records with a key | length u32 per record | keys |
    headers       | names u32, each size u16 and UTF-8 | headers u16 per record
                  | name's index u32 per header | size u32 per header, 2^32 − 1: no value | values |
    event times   | i64 per record, Unix milliseconds; −2^63: none |

A key may be empty: a record with an empty key has a key. A record may have several headers of one
name; their order is kept. Event times come from clocks of the application: they decide nothing in
the log.

A program that does not know the columns passes them over and reads the payloads. So they are
written only where the cluster's feature level says that every program knows them
(quire/metastore/levels.py).

Pure: no clock and no I/O.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Final, NamedTuple, TypeAlias, cast

from quire.entry import as_bytes
from quire.errors import InvalidRequestError
from quire.log.records.position import Record, to_ms

KEYS, HEADERS, EVENT_TIMES = 6, 7, 8
"""Kinds of the columns."""

HEADERS_MAX: Final = 1000
"""Headers of one record."""

HEADER_NAME_BYTES_MAX: Final = 1024

ATTRIBUTES_BYTES: Final = 1 + 4 + 2 + 8
"""The columns cost a record without attributes so many bytes at most."""

EVENT_TIME_MS_MAX: Final = (2**63 - 1) // 1000
"""Arrow and Spark count microseconds in 63 bits: until the year 294,247."""

NO_EVENT_TIME: Final = -(2**63)
_NO_VALUE: Final = 2**32 - 1
_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""Names and values in order; a name may come more than once, and a value may be missing."""


class Attributes(NamedTuple):
    """Key, headers and event time of a record. None or empty: the record lacks it."""

    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    event_time_ms: int | None = None

    def cost(self) -> int:
        """Return the bytes that they add to a batch at most, besides `ATTRIBUTES_BYTES`.

        Returns:
            A number of bytes.
        """
        names = sum(2 + len(name.encode()) for name, _ in self.headers)
        values = sum(8 + len(value or b"") for _, value in self.headers)
        return len(self.key or b"") + names + values


NO_ATTRIBUTES: Final = Attributes()


ATTRIBUTE_VALUES: Final[dict[str, Callable[[Attributes], object]]] = {
    "key": lambda each: each.key,
    "headers": lambda each: (
        [{"name": name, "value": value} for name, value in each.headers] or None
    ),
    "event_time": lambda each: None if each.event_time_ms is None else 1000 * each.event_time_ms,
}
"""The values of columns of these names, in Arrow and in files; times in microseconds."""


class NewRecord:
    """A record to append, with a key, headers or an event time.

    A log takes it wherever it takes the bytes of a record.

    Args:
        payload: the payload, bytes-like.
        key: the subject of the record, bytes-like: for compaction, routing and joins.
        headers: names and values, as a mapping or as pairs; a value is bytes-like or None. Pairs
            may repeat a name.
        event_time: when it happened, by the application's clock: an aware datetime, or Unix
            milliseconds. The log's own time (`Record.timestamp_ms`) does not depend on it.

    Raises:
        InvalidRequestError: a header or the event time cannot be stored.
        TypeError: payload, key or a header's value is not bytes-like.
    """

    __slots__ = ("attributes", "payload")

    def __init__(
        self,
        payload: bytes,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]] = (),
        event_time: datetime | int | None = None,
    ) -> None:
        self.payload: Final = as_bytes(payload)
        self.attributes: Final = Attributes(
            None if key is None else as_bytes(key),
            _headers(headers) if headers else (),  # most records have none
            None if event_time is None else _event_time(event_time),
        )

    def __repr__(self) -> str:
        key, headers, event_time_ms = self.attributes
        return (
            f"NewRecord({self.payload!r}, key={key!r}, headers={headers!r}, "
            f"event_time={event_time_ms!r})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NewRecord) and (self.payload, self.attributes) == (
            other.payload,
            other.attributes,
        )

    def __hash__(self) -> int:
        return hash((self.payload, self.attributes))


_BYTES_ONLY: Final = {bytes}

Appendable: TypeAlias = bytes | NewRecord
"""A record to append: its payload alone, or with attributes."""


def copy_of(record: Record) -> Appendable:
    """Return the record to append so that a log has a record that was read once more."""
    given = Attributes(record.key, record.headers, record.event_time_ms)
    if given == NO_ATTRIBUTES:
        return record.payload
    key, headers, event_time_ms = given
    return NewRecord(record.payload, key=key, headers=headers, event_time=event_time_ms)


def taken(records: Iterable[Appendable]) -> tuple[list[bytes], tuple[Attributes, ...]]:
    """Return the payloads of records, and the attributes of each; no attributes if none has any.

    Raises `TypeError` for a record that is neither bytes-like nor a `NewRecord`.
    """
    given = list(records)
    if set(map(type, given)) == _BYTES_ONLY:
        return cast(list[bytes], given), ()
    payloads: list[bytes] = []
    attributes: list[Attributes] = []
    for record in given:
        if isinstance(record, NewRecord):
            payloads.append(record.payload)
            attributes.append(record.attributes)
        else:
            payloads.append(as_bytes(record))
            attributes.append(NO_ATTRIBUTES)
    has_any = any(each != NO_ATTRIBUTES for each in attributes)
    return payloads, tuple(attributes) if has_any else ()


def _headers(
    given: Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]],
) -> Headers:
    pairs = given.items() if isinstance(given, Mapping) else given
    found: list[tuple[str, bytes | None]] = []
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise InvalidRequestError(f"header {pair!r} is not a pair of a name and a value")
        name, value = pair
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            raise InvalidRequestError(f"header name {name!r} is not text") from None
        if not 0 < size <= HEADER_NAME_BYTES_MAX:
            raise InvalidRequestError(
                f"header name {name[:40]!r} has {size} bytes: 1 to {HEADER_NAME_BYTES_MAX} are "
                "allowed"
            )
        found.append((name, None if value is None else as_bytes(value)))
    if len(found) > HEADERS_MAX:
        raise InvalidRequestError(f"{len(found)} headers are too many: {HEADERS_MAX} are allowed")
    return tuple(found)


def _event_time(time: datetime | int | None) -> int | None:
    if isinstance(time, datetime):
        return to_ms(time)
    if time is not None and (type(time) is not int or abs(time) > EVENT_TIME_MS_MAX):
        raise InvalidRequestError(
            f"event time {time!r} is neither an aware datetime nor Unix milliseconds within "
            f"±{EVENT_TIME_MS_MAX}"
        )
    return time


def encode_attributes(records: Sequence[Attributes]) -> dict[int, bytes]:
    """Return the columns of records with these attributes; none for a kind that no record has."""
    columns: dict[int, bytes] = {}
    keys = [each.key for each in records]
    if any(key is not None for key in keys):
        columns[KEYS] = _encode_keys(keys)
    if any(each.headers for each in records):
        columns[HEADERS] = _encode_headers([each.headers for each in records])
    times = [each.event_time_ms for each in records]
    if any(time is not None for time in times):
        stored = (NO_EVENT_TIME if time is None else time for time in times)
        columns[EVENT_TIMES] = struct.pack(f"<{len(times)}q", *stored)
    return columns


def _encode_keys(keys: Sequence[bytes | None]) -> bytes:
    valid = bytearray(-(-len(keys) // 8))
    for place, key in enumerate(keys):
        if key is not None:
            valid[place // 8] |= 1 << place % 8
    given = [key or b"" for key in keys]
    return b"".join((valid, struct.pack(f"<{len(keys)}I", *map(len, given)), *given))


def _encode_headers(rows: Sequence[Headers]) -> bytes:
    pairs = [pair for row in rows for pair in row]
    names = {name: place for place, name in enumerate(sorted({name for name, _ in pairs}))}
    encoded = [name.encode() for name in names]
    sizes = [_NO_VALUE if value is None else len(value) for _, value in pairs]
    return b"".join((
        _U32.pack(len(names)),
        *(_U16.pack(len(name)) + name for name in encoded),
        struct.pack(f"<{len(rows)}H", *map(len, rows)),
        struct.pack(f"<{len(pairs)}I", *(names[name] for name, _ in pairs)),
        struct.pack(f"<{len(pairs)}I", *sizes),
        *(value for _, value in pairs if value),
    ))  # fmt: skip


@dataclass(frozen=True, slots=True)
class AttributeColumns:
    """The attributes of a batch's records, by column. A column that the batch lacks is empty."""

    keys: Sequence[bytes | None] = ()
    headers: Sequence[tuple[tuple[str, bytes | None], ...]] = ()
    event_times_ms: Sequence[int | None] = ()

    def __bool__(self) -> bool:
        return bool(self.keys or self.headers or self.event_times_ms)

    def of_slots(self, slots: range) -> list[Attributes]:
        """Return the attributes of some records.

        Args:
            slots: the records' places in the batch.

        Returns:
            The attributes of each slot.
        """
        part = slice(slots.start, slots.stop)
        count = len(slots)
        keys = self.keys[part] if self.keys else [None] * count
        headers = self.headers[part] if self.headers else [()] * count
        times = self.event_times_ms[part] if self.event_times_ms else [None] * count
        return [Attributes(*each) for each in zip(keys, headers, times, strict=True)]


NO_COLUMNS: Final = AttributeColumns()


def decode_attributes(columns: Mapping[int, bytes], count: int) -> AttributeColumns:
    """Return the attributes in a batch's columns, by kind; `count` is how many records it has.

    Raises `ValueError` when a column does not add up.
    """
    keys, headers, times = (columns.get(kind) for kind in (KEYS, HEADERS, EVENT_TIMES))
    if keys is headers is times is None:
        return NO_COLUMNS
    return AttributeColumns(
        () if keys is None else _decode_keys(keys, count),
        () if headers is None else _decode_headers(headers, count),
        () if times is None else _decode_times(times, count),
    )


def _decode_keys(data: bytes, count: int) -> list[bytes | None]:
    at = -(-count // 8)
    lengths, start = _numbers(data, at, count, "I", "keys")
    found = _cut(data, start, lengths, "keys")
    valid = data[:at]
    return [key if valid[place // 8] >> place % 8 & 1 else None for place, key in enumerate(found)]


def _decode_headers(data: bytes, count: int) -> list[Headers]:
    (size,), at = _numbers(data, 0, 1, "I", "headers")
    names: list[str] = []
    for _ in range(size):
        (length,), at = _numbers(data, at, 1, "H", "headers")
        names.append(data[at : at + length].decode())
        at += length
    counts, at = _numbers(data, at, count, "H", "headers")
    total = sum(counts)
    indices, at = _numbers(data, at, total, "I", "headers")
    sizes, at = _numbers(data, at, total, "I", "headers")
    if total and max(indices) >= len(names):
        raise ValueError(f"a header has name {max(indices)} of {len(names)}")
    values = _cut(data, at, [0 if each == _NO_VALUE else each for each in sizes], "headers")
    pairs = [
        (names[index], None if length == _NO_VALUE else value)
        for index, length, value in zip(indices, sizes, values, strict=True)
    ]
    ends = accumulate(counts, initial=0)
    return [tuple(pairs[start:end]) for start, end in pairwise(ends)]


def _decode_times(data: bytes, count: int) -> list[int | None]:
    times, end = _numbers(data, 0, count, "q", "event times")
    if end != len(data):
        raise ValueError(f"event times of {count} records have {len(data)} bytes")
    if any(abs(each) > EVENT_TIME_MS_MAX for each in times if each != NO_EVENT_TIME):
        raise ValueError("an event time of a batch is out of range")
    return [None if each == NO_EVENT_TIME else each for each in times]


def _numbers(data: bytes, at: int, count: int, kind: str, what: str) -> tuple[tuple[int, ...], int]:
    layout = struct.Struct(f"<{count}{kind}")
    if at + layout.size > len(data):
        raise ValueError(f"{what} of a batch end too early")
    return layout.unpack_from(data, at), at + layout.size


def _cut(data: bytes, start: int, lengths: Sequence[int], what: str) -> list[bytes]:
    """Return the pieces that `data` has from `start` to its end."""
    if start + sum(lengths) != len(data):
        raise ValueError(f"{what} of a batch do not add up")
    return [data[begin:end] for begin, end in pairwise(accumulate(lengths, initial=start))]
