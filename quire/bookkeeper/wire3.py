"""The third protocol of Apache's bookies: protobuf messages, each with a transaction number.

    | size u32 | message |           both directions; the size does not count itself

    request    header 1 · one part by operation (100 to 108)
    response   header 1 · status 2 · the same part
    header     version 1 (= 3) · operation 2 · transaction 3 · priority 4

Answers come in any order and are matched by transaction. A part has a status of its own, which
counts where it is an error, and otherwise the status of the message does. The ids that count in an
add are those inside the frame. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum, IntFlag
from typing import Final, NamedTuple

from quire.bookkeeper.protobuf import (
    BYTES,
    Field,
    MalformedError,
    Message,
    encode,
    field,
    number,
)
from quire.bookkeeper.status import Status
from quire.entry import EntryId, LedgerId
from quire.wire.varint import read_varint, varint

VERSION: Final = 3
MESSAGE_BYTES_MAX: Final = 5_253_120
"""The default bound of both sides, `nettyMaxFrameSizeBytes`: 5 MiB and 10 KiB. A larger message
resets the connection, and loses every call that is under way."""

OVERHEAD_BYTES: Final = 128
"""More than a request for an entry adds to its frame."""

FRAME_BYTES_MAX: Final = MESSAGE_BYTES_MAX - OVERHEAD_BYTES

PRIORITY: Final = 100
"""The priority of Java's clients; any above 0 is high."""

SIZES_MAX: Final = 1024
"""Sizes of frames that an encoder keeps the surrounding bytes of."""

SIZE: Final = struct.Struct(">I")


class Operation(IntEnum):
    """The operations."""

    READ = 1
    ADD = 2
    AUTH = 5
    WRITE_LAC = 6
    READ_LAC = 7
    INFO = 8
    START_TLS = 9
    FORCE = 10
    LIST_ENTRIES = 11


PART: Final[dict[Operation, int]] = {
    Operation.READ: 100,
    Operation.ADD: 101,
    Operation.AUTH: 102,
    Operation.WRITE_LAC: 103,
    Operation.READ_LAC: 104,
    Operation.INFO: 105,
    Operation.START_TLS: 106,
    Operation.FORCE: 107,
    Operation.LIST_ENTRIES: 108,
}
"""The field that holds an operation's part."""

WITH_STATUS: Final = frozenset(Operation) - {Operation.AUTH, Operation.START_TLS}
"""Operations with a status in their part, in field 1."""


class ReadFlag(IntEnum):
    """Effects of a read besides reading."""

    FENCE = 1
    WAIT = 2
    """The long poll, which brings the last LAC and waits for it."""


class AddFlag(IntFlag):
    """How an add is written."""

    NONE = 0
    DEFERRED = 1


RECOVERY: Final = 1
"""The flag of an add that passes a fence."""


class BookieAnswer(NamedTuple):
    """A response: the request that it answers, and its contents."""

    operation: int
    transaction: int
    status: int
    part: Message
    """Empty where the response lacks it, as a refusal of the request does."""


def message(operation: Operation, transaction: int, part: bytes, priority: int = 0) -> bytes:
    """Return a request with its size."""
    header = encode([(1, VERSION), (2, operation), (3, transaction), (4, priority or None)])
    return sized(field(1, header) + field(PART[operation], part))


def sized(data: bytes) -> bytes:
    """Return a message after its size."""
    return SIZE.pack(len(data)) + data


def read(
    transaction: int,
    ledger: LedgerId,
    entry: EntryId,
    *,
    fence_key: bytes | None = None,
    priority: int = 0,
) -> bytes:
    """Return a request to read an entry; entry −1 is the last one held."""
    flag = None if fence_key is None else ReadFlag.FENCE
    part = encode([(1, ledger), (2, entry), (3, fence_key), (100, flag)])
    return message(Operation.READ, transaction, part, priority)


def poll(transaction: int, ledger: LedgerId, above: EntryId, milliseconds: int) -> bytes:
    """Return a request that is answered when the bookie's LAC exceeds `above`, or in time."""
    fields: list[Field] = [(1, ledger), (2, -1), (4, above), (5, milliseconds)]
    part = encode([*fields, (100, ReadFlag.WAIT)])
    return message(Operation.READ, transaction, part)


def write_lac(transaction: int, ledger: LedgerId, lac: EntryId, key: bytes, packet: bytes) -> bytes:
    """Return a request to keep an explicit LAC."""
    part = encode([(1, ledger), (2, lac), (3, key), (4, packet)])
    return message(Operation.WRITE_LAC, transaction, part)


def of_ledger(operation: Operation, transaction: int, ledger: LedgerId) -> bytes:
    """Return a request that names a ledger and nothing else: READ_LAC, FORCE, LIST_ENTRIES."""
    return message(operation, transaction, encode([(1, ledger)]))


def info(transaction: int) -> bytes:
    """Return a request for total and free space."""
    return message(Operation.INFO, transaction, encode([(1, 3)]))


def start_tls(transaction: int) -> bytes:
    """Return the request for TLS: the connection speaks it after the answer."""
    return message(Operation.START_TLS, transaction, b"")


def authenticate(transaction: int, plugin: str, payload: bytes) -> bytes:
    """Return a message of an authentication."""
    return message(Operation.AUTH, transaction, encode([(1, plugin), (2, payload)]))


class ReadEncoder:
    """The plain reads of one ledger: all but transaction, entry and lengths is made once."""

    __slots__ = ("_ledger",)

    def __init__(self, ledger: LedgerId) -> None:
        self._ledger = field(1, ledger) + varint(2 << 3)

    def encode(self, transaction: int, entry: EntryId) -> bytes:
        """Return the request for an entry; entry −1 is the last one held."""
        header = _READ_HEAD + number(transaction)
        part = self._ledger + number(entry)
        return sized(
            b"".join((_HEADER, varint(len(header)), header, _READ_PART, varint(len(part)), part))
        )


class AddEncoder:
    """The adds of one ledger: all but transaction, entry and lengths is made once."""

    __slots__ = ("_around", "_before", "_head", "_id", "_ledger", "_tail", "after")

    def __init__(self, ledger: LedgerId, key: bytes, *, recovery: bool, deferred: bool) -> None:
        self._head = encode([(1, VERSION), (2, Operation.ADD)]) + varint(3 << 3)
        self._tail = field(4, PRIORITY) if recovery else b""
        self._id = ledger
        self._ledger = field(1, ledger) + varint(2 << 3)
        self._before = field(3, key) + varint(4 << 3 | BYTES)
        flags: list[Field] = [
            (5, AddFlag.DEFERRED if deferred else None),
            (100, RECOVERY if recovery else None),
        ]
        self.after = encode(flags)
        """What stands after a frame."""
        self._around: dict[tuple[int, int, int], tuple[bytes, bytes, bytes]] = {}

    def around(
        self, transaction_bytes: int, entry_bytes: int, frame_bytes: int
    ) -> tuple[bytes, bytes, bytes]:
        """Return what stands in a request before its transaction, between this and the entry, and
        before the frame, where these take so many bytes.
        """
        asked = transaction_bytes, entry_bytes, frame_bytes
        found = self._around.get(asked)
        if found is None:
            frame = self._before + varint(frame_bytes)
            size = len(self._ledger) + entry_bytes + len(frame) + frame_bytes + len(self.after)
            between = self._tail + _ADD_PART + varint(size) + self._ledger
            header = varint(len(self._head) + transaction_bytes + len(self._tail))
            start = _HEADER + header + self._head
            whole = len(start) + transaction_bytes + len(between) + size - len(self._ledger)
            found = SIZE.pack(whole) + start, between, frame
            if len(self._around) >= SIZES_MAX:
                self._around.clear()
            self._around[asked] = found
        return found

    def encode(
        self, transaction: int, frames: Iterable[tuple[EntryId, bytes | memoryview]]
    ) -> list[bytes | memoryview]:
        """Return the requests for some frames, in pieces; their transactions ascend by one."""
        pieces: list[bytes | memoryview] = []
        for each, (entry, frame) in enumerate(frames, transaction):
            first, second = number(each), number(entry)
            before, between, after = self.around(len(first), len(second), len(frame))
            pieces += (b"".join((before, first, between, second, after)), frame, self.after)
        return pieces

    def answer(self, transaction_bytes: int, entry_bytes: int) -> tuple[bytes, bytes]:
        """Return what stands in the answer of a bookie that stored an entry, with its size, before
        the transaction, and between this and the entry, which is the end.
        """
        part = field(1, Status.OK) + field(2, self._id) + varint(3 << 3)
        size = varint(len(part) + entry_bytes)
        between = field(2, Status.OK) + _ADD_PART + size + part
        start = _HEADER + varint(len(_ADDED) + transaction_bytes) + _ADDED
        whole = len(start) + transaction_bytes + len(between) + entry_bytes
        return SIZE.pack(whole) + start, between


def read_answer(data: bytes) -> BookieAnswer:
    """Return the contents of a bookie's message. Raises `MalformedError`."""
    started = _read_start(data)
    if started is not None and started.part:
        operation, transaction, status, at = started
        part = (_read_entry(data, at) if operation == Operation.READ else None) or Message(
            data[at:]
        )
    else:
        operation, transaction, status, part = _read_fields(data)
    if operation in WITH_STATUS and part.has(1):
        status = part.number(1) or status
    return BookieAnswer(operation, transaction, status, part)


def _read_entry(data: bytes, at: int) -> Message | None:
    """Read the part of an answer to a read, which is the rest, in the order that bookies write
    it; None for another order. One is read for every entry.
    """
    end = len(data)
    try:
        if data[at] != _PART_STATUS:
            return None
        status, at = read_varint(data, at + 1)
        if data[at] != _PART_LEDGER:
            return None
        ledger, at = read_varint(data, at + 1)
        if data[at] != _PART_ENTRY:
            return None
        entry, at = read_varint(data, at + 1)
        fields: dict[int, list[int | bytes]] = {1: [status], 2: [ledger], 3: [entry]}
        if at < end and data[at] == _PART_BODY:
            size, at = read_varint(data, at + 1)
            if at + size > end:
                return None
            fields[4] = [data[at : at + size]]
            at += size
        if at < end and data[at] == _PART_LAC:
            lac, at = read_varint(data, at + 1)
            fields[5] = [lac]
    except IndexError:
        return None
    return Message.of(fields) if at == end else None


def _read_fields(data: bytes) -> tuple[int, int, int, Message]:
    """Read a message whose fields may stand in any order."""
    whole = Message(data)
    header = Message(whole.data(1))
    if header.number(1) != VERSION:
        raise MalformedError(f"version {header.number(1)} of the protocol, not {VERSION}")
    operation, transaction = header.number(2), header.number(3)
    return operation, transaction, whole.number(2), Message(_part_of(whole, operation))


def _part_of(whole: Message, operation: int) -> bytes:
    try:
        return whole.data(PART[Operation(operation)], b"")
    except ValueError as error:
        if isinstance(error, MalformedError):
            raise
        raise MalformedError(f"operation {operation} is not known") from error


class _Start(NamedTuple):
    operation: int
    transaction: int
    status: int
    part: int
    """Where the contents of the part begin, which then is the rest; 0 for another arrangement."""


def _read_start(data: bytes) -> _Start | None:
    """Read a message up to its part, in the order in which bookies write their fields; None for
    another order.
    """
    if not data.startswith(_VERSION, 2) or data[0] != _HEADER[0]:
        return None
    try:
        operation = data[5]
        if data[6] != _TRANSACTION:
            return None
        transaction, at = read_varint(data, 7)
        if at != 2 + data[1] or data[at] != _STATUS:
            return None
        status, at = read_varint(data, at + 1)
        part = _PARTS.get(operation)
        if part is not None and data.startswith(part, at):
            size, at = read_varint(data, at + len(part))
            return _Start(operation, transaction, status, at if at + size == len(data) else 0)
    except IndexError:
        return None
    return _Start(operation, transaction, status, 0)


def read_added(data: bytes, at: int = 0) -> tuple[int, int] | None:
    """Return transaction and status of the answer to an add that begins at an offset, without its
    size. None for another answer, or for a part of one.

    It looks at as many bytes as it must. A status that is not 0 is to be looked for in the part, by
    `read_answer`.
    """
    if not data.startswith(_ADDED, at + 2) or data[at] != _HEADER[0]:
        return None
    try:
        transaction, end = read_varint(data, at + 2 + len(_ADDED))
        if end != at + 2 + data[at + 1] or data[end] != _STATUS:
            return None
        return transaction, read_varint(data, end + 1)[0]
    except IndexError:
        return None


_HEADER: Final = varint(1 << 3 | BYTES)
_ADD_PART: Final = varint(PART[Operation.ADD] << 3 | BYTES)
_READ_HEAD: Final = encode([(1, VERSION), (2, Operation.READ)]) + varint(3 << 3)
_READ_PART: Final = varint(PART[Operation.READ] << 3 | BYTES)
_ADDED: Final = encode([(1, VERSION), (2, Operation.ADD)]) + varint(3 << 3)
_STATUS: Final = 2 << 3
_TRANSACTION: Final = 3 << 3
_PART_STATUS: Final = 1 << 3
_PART_LEDGER: Final = 2 << 3
_PART_ENTRY: Final = 3 << 3
_PART_BODY: Final = 4 << 3 | BYTES
_PART_LAC: Final = 5 << 3
_VERSION: Final = field(1, VERSION) + varint(2 << 3)
_PARTS: Final = {int(each): varint(key << 3 | BYTES) for each, key in PART.items()}

AVAILABILITY_HEADER: Final = 64
RANGES_MAX: Final = 1_048_576
"""Ranges in one list of entries: they take 140 MB and 0.3 s, and 24 bytes can name any number of
them. A bookie with two of every three entries has as many of a ledger of 3 million."""

_GROUPS: Final = struct.Struct(">ii")
_GROUP: Final = struct.Struct(">qqii")


def read_availability(data: bytes) -> list[tuple[EntryId, EntryId]]:
    """Return the ids that an answer to LIST_ENTRIES names, as ascending, disjoint ranges.

    A group is `size` ids from each of first, first + period, … last on; period 0 is one such run.
    Raises `MalformedError`, also for more than `RANGES_MAX` of them in all groups together.
    """
    if len(data) < AVAILABILITY_HEADER:
        raise MalformedError(f"a list of entries of {len(data)} bytes has no header")
    version, count = _GROUPS.unpack_from(data)
    if version != 0 or count < 0 or len(data) < AVAILABILITY_HEADER + count * _GROUP.size:
        raise MalformedError(f"{count} groups of version {version} in {len(data)} bytes")
    ranges: list[tuple[EntryId, EntryId]] = []
    left = RANGES_MAX
    for place in range(count):
        first, last, size, period = _GROUP.unpack_from(
            data, AVAILABILITY_HEADER + place * _GROUP.size
        )
        if size < 1 or period < 0 or not 0 <= first <= last or (last > first and not period):
            raise MalformedError(f"group {place} is {first} to {last}, {size} in every {period}")
        left -= (last - first) // (period or 1) + 1
        if left < 0:
            raise MalformedError(f"groups 0 to {place} make more than {RANGES_MAX} ranges")
        for start in range(first, last + 1, period or 1):
            _join(ranges, start, start + size - 1)
    return ranges


def _join(ranges: list[tuple[EntryId, EntryId]], first: EntryId, last: EntryId) -> None:
    if ranges and first <= ranges[-1][1]:
        raise MalformedError(f"entry {first} follows {ranges[-1][1]}")
    if ranges and first == ranges[-1][1] + 1:
        ranges[-1] = (ranges[-1][0], last)
    else:
        ranges.append((first, last))
