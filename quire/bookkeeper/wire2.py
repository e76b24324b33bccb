"""The second protocol of Apache's bookies: fixed layouts, for adds and reads.

    | size u32 | version 2 << 24, opcode << 16, flags | body |

Without transactions, an answer names opcode, ledger and entry; the answer to a batch read has a
request id besides. A connection speaks this protocol or the third, whichever its first message
is of. Nothing of an add depends on the connection. Pure.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from quire.bookkeeper.protobuf import MalformedError
from quire.bookkeeper.status import CODES, Status
from quire.entry import EntryId, LedgerId

VERSION: Final = 2
KEY_BYTES: Final = 20
FENCE: Final = 1
RECOVERY: Final = 2
HIGH_PRIORITY: Final = 4

BATCH_BYTES_MAX: Final = 5 * 1024 * 1024
"""The most that a bookie sends in answer to one batch read."""


class Opcode(IntEnum):
    """The operations."""

    ADD = 1
    READ = 2
    AUTH = 3
    BATCH_READ = 7


class FixedAnswer(NamedTuple):
    """A response: the request that it answers, and its contents."""

    opcode: Opcode
    status: Status
    ledger: LedgerId
    entry: EntryId
    request: int
    """The id of a batch read, 0 for others."""
    body: bytes | memoryview
    """A frame, or a run of frames for a batch read; without any when the status is not OK."""


_WORDS: Final = struct.Struct(">II")
_READ: Final = struct.Struct(">IIqq")
_BATCH: Final = struct.Struct(">IIqqqiq")
_HEAD: Final = struct.Struct(">IIqq")
_REQUEST: Final = struct.Struct(">q")

ADDED: Final = struct.Struct(">IIIqq")
"""A whole answer to an add: size, header word, return code, ledger, entry."""


def add(key: bytes, frame: bytes | memoryview, *, recovery: bool = False) -> bytes:
    """Return a request to store a frame, with its size. The key has 20 bytes."""
    assert len(key) == KEY_BYTES, f"a key of {len(key)} bytes"
    flags = RECOVERY | HIGH_PRIORITY if recovery else 0
    return b"".join((_WORDS.pack(4 + KEY_BYTES + len(frame), _word(Opcode.ADD, flags)), key, frame))


def read(ledger: LedgerId, entry: EntryId, fence_key: bytes | None = None) -> bytes:
    """Return a request to read an entry; entry −1 is the last one held."""
    key = fence_key or b""
    word = _word(Opcode.READ, FENCE if key else 0)
    return _READ.pack(_READ.size - 4 + len(key), word, ledger, entry) + key


def batch_read(request: int, ledger: LedgerId, first: EntryId, count: int, bytes_max: int) -> bytes:
    """Return a request for consecutive entries: at most `count`, at most so many bytes."""
    return _BATCH.pack(
        _BATCH.size - 4, _word(Opcode.BATCH_READ, 0), ledger, first, request, count, bytes_max
    )


def read_answer(data: bytes) -> FixedAnswer:
    """Return the contents of a bookie's message without its size. Raises `MalformedError`."""
    if len(data) < _HEAD.size:
        raise MalformedError(f"an answer of {len(data)} bytes")
    word, code, ledger, entry = _HEAD.unpack_from(data)
    opcode = _opcode(word)
    if code not in CODES:
        raise MalformedError(f"return code {code} is not known")
    status, at, request = CODES[code], _HEAD.size, 0
    if opcode is Opcode.BATCH_READ:
        if len(data) < at + _REQUEST.size:
            raise MalformedError(f"an answer to a batch read of {len(data)} bytes")
        (request,) = _REQUEST.unpack_from(data, at)
        at += _REQUEST.size
    # Frames after their sizes: the layout of a run.
    return FixedAnswer(opcode, status, ledger, entry, request, memoryview(data)[at:])


def _word(opcode: Opcode, flags: int) -> int:
    return VERSION << 24 | opcode << 16 | flags


def _opcode(word: int) -> Opcode:
    if word >> 24 != VERSION:
        raise MalformedError(f"version {word >> 24} of the protocol, not {VERSION}")
    try:
        return Opcode(word >> 16 & 0xFF)
    except ValueError as error:
        raise MalformedError(f"opcode {word >> 16 & 0xFF} is not known") from error
