"""The answer of a read, assembled and taken apart by hand so that a run is copied once at each end.

A protobuf message would copy every part three times on its way out and twice on its way in, and
whole logs pass here. What travels is the same protobuf encoding (docs/formats.md, "Wire"): a
message that is put together in any other way is understood as well.

    ReadReply = tag 0x08 | size varint | tag 0x12 | part's size varint | part
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, cast

from google.protobuf.message import DecodeError

from quire.wire import bookie_pb2 as pb
from quire.wire.codec import decode_failure
from quire.wire.varint import read_varint, varint

METHOD: Final = f"/{pb.DESCRIPTOR.services_by_name['Bookie'].full_name}/Read"

PART_BYTES_MAX: Final = 1024 * 1024
"""Part of a run in one message: a message costs both ends as much as copying half of that."""

_SIZE_TAG: Final = pb.ReadReply.SIZE_FIELD_NUMBER << 3
_PART_TAG: Final = pb.ReadReply.PART_FIELD_NUMBER << 3 | 2


class NoMessageError(Exception):
    """The bytes to decode are not a message. Never leaves the stub (ledger/remote.py)."""


class RunPart(NamedTuple):
    """One message of an answer: how many bytes the run has in all, and the next ones of them."""

    size: int
    data: bytes | memoryview


def part_pieces(run: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the serialized messages that carry a run, each in two pieces; no byte is copied."""
    head = bytes((_SIZE_TAG,)) + varint(len(run)) + bytes((_PART_TAG,))
    if len(run) <= PART_BYTES_MAX:
        if run:
            yield head + varint(len(run)), run
        return
    view = memoryview(run)
    for start in range(0, len(run), PART_BYTES_MAX):
        part = view[start : start + PART_BYTES_MAX]
        yield head + varint(len(part)), cast("bytes", part)


def encode_parts(run: bytes) -> Iterator[bytes]:
    """Yield the serialized messages that carry a run."""
    return map(b"".join, part_pieces(run))


def decode_part(message: bytes, start: int = 0) -> RunPart:
    """Return the contents of a message, without copying it when it was encoded here.

    The message begins at an offset. Raises the error that a bookie answered, and `NoMessageError`.
    """
    return _decode_own(message, start) or _decode_any(message[start:])


def _decode_own(message: bytes, start: int) -> RunPart | None:
    """Read the fields in the order of `part_pieces`; None when they differ."""
    try:
        if message[start] != _SIZE_TAG:
            return None
        size, at = read_varint(message, start + 1)
        if message[at] != _PART_TAG:
            return None
        length, at = read_varint(message, at + 1)
    except IndexError:
        return None
    return RunPart(size, memoryview(message)[at:]) if at + length == len(message) else None


def _decode_any(message: bytes) -> RunPart:
    try:
        reply = pb.ReadReply.FromString(message)
    except DecodeError as error:
        raise NoMessageError(str(error)) from error
    if reply.HasField("failure"):
        raise decode_failure(reply.failure)
    return RunPart(reply.size, reply.part)
