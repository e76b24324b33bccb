"""The second protocol of Apache's bookies, at the bookie's end: requests read, answers written.

quire/bookkeeper/wire2.py has the layouts, and the client's end. Pure.
"""

from __future__ import annotations

import struct
from typing import Final

from quire.bookkeeper.protobuf import MalformedError, encode
from quire.bookkeeper.serving.request import (
    AUTH_DISABLED,
    SECOND,
    ClientRequest,
    Reply,
    RequestKind,
)
from quire.bookkeeper.status import NUMBERS
from quire.bookkeeper.wire2 import FENCE, KEY_BYTES, RECOVERY, VERSION, Opcode
from quire.entry import HEADER

_WORD: Final = struct.Struct(">I")
_IDS: Final = struct.Struct(">qq")
_BATCH: Final = struct.Struct(">qqqiq")
_ANSWER: Final = struct.Struct(">IIqq")
_REQUEST: Final = struct.Struct(">q")


def is_second(data: bytes) -> bool:
    """Whether a message is of this protocol: its first byte begins no message of the third."""
    return data[:1] == bytes([VERSION])


def read_request(data: bytes) -> ClientRequest:
    """Return a client's message without its size. An opcode that is not known is a request of kind
    UNKNOWN. Raises `MalformedError` for bytes that are too short for their opcode.
    """
    if len(data) < _WORD.size or not is_second(data):
        raise MalformedError(f"a message of {len(data)} bytes is outside protocol {VERSION}")
    (word,) = _WORD.unpack_from(data)
    opcode, flags = word >> 16 & 0xFF, word & 0xFFFF
    try:
        match opcode:
            case Opcode.ADD:
                return _add(data, flags)
            case Opcode.READ:
                ledger, entry = _IDS.unpack_from(data, _WORD.size)
                key = _key(data, _WORD.size + _IDS.size)
                request = ClientRequest(SECOND, opcode, 0, RequestKind.READ, ledger, entry, key)
                return request._replace(fences=bool(flags & FENCE))
            case Opcode.BATCH_READ:
                return _batch(data, flags)
            case Opcode.AUTH:
                return ClientRequest(SECOND, opcode, 0, RequestKind.AUTH)
    except struct.error as error:
        raise MalformedError(f"a request {opcode} of {len(data)} bytes: {error}") from error
    return ClientRequest(SECOND, opcode, 0, RequestKind.UNKNOWN)


def _add(data: bytes, flags: int) -> ClientRequest:
    at = _WORD.size + KEY_BYTES
    ledger, entry, _, _ = HEADER.unpack_from(data, at)
    recovery = bool(flags & RECOVERY)
    request = ClientRequest(
        SECOND, Opcode.ADD, 0, RequestKind.ADD, ledger, entry, data[_WORD.size : at]
    )
    return request._replace(body=data[at:], recovery=recovery)


def _batch(data: bytes, flags: int) -> ClientRequest:
    ledger, first, transaction, count, bytes_max = _BATCH.unpack_from(data, _WORD.size)
    key = _key(data, _WORD.size + _BATCH.size)
    request = ClientRequest(
        SECOND, Opcode.BATCH_READ, transaction, RequestKind.BATCH_READ, ledger, first, key
    )
    return request._replace(fences=bool(flags & FENCE), entries=count, bytes_max=bytes_max)


def _key(data: bytes, at: int) -> bytes | None:
    return data[at : at + KEY_BYTES] or None


def encode_reply(request: ClientRequest, reply: Reply) -> bytes:
    """Return the answer to a request, without its size."""
    word = VERSION << 24 | request.operation << 16
    if request.kind is RequestKind.AUTH:
        return _WORD.pack(word) + encode([(1, AUTH_DISABLED), (2, b"")])
    head = _ANSWER.pack(word, NUMBERS[reply.status], request.ledger, request.entry)
    if request.kind is RequestKind.BATCH_READ:
        return head + _REQUEST.pack(request.transaction) + reply.body
    return head + reply.body
