"""The messages of reads on a connection of their own (docs/formats.md, "Reads"). Pure.

A connection whose sides both offer `reads` carries these messages instead of runs. A client asks,
and the bookie answers in any order; a number ties an answer to its question. The parts of an answer
are in order. Question and parts are the messages of the gRPC method `Read`.

    question  = number varint | length of the id varint | request id | ReadRequest
    give-up   = number varint
    answer    = number varint | ReadReply

Numbers begin with 1 and grow. An answer with the number 0 refuses the connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from quire.requests import checked_id
from quire.wire import bookie_pb2 as pb
from quire.wire.adds import UNDECODABLE
from quire.wire.reads import NoMessageError, RunPart, decode_part, part_pieces
from quire.wire.varint import read_varint, varint

QUESTION_BYTES_MAX: Final = 64 * 1024
"""Largest message of a client: a key has some hundred bytes at most."""

REFUSAL: Final = 0
"""The number of the answer that refuses the connection."""


class Question(NamedTuple):
    """A message of a client."""

    number: int
    request_id: str
    """Empty for none."""
    request: pb.ReadRequest | None
    """None gives the answer up."""


class AnswerPart(NamedTuple):
    """A message of a bookie."""

    number: int
    part: RunPart


def encode_question(number: int, request_id: str, request: bytes) -> tuple[bytes, bytes]:
    """Return the parts of a message that asks, with a serialized `pb.ReadRequest`."""
    name = request_id.encode()
    return b"".join((varint(number), varint(len(name)), name)), request


def encode_give_up(number: int) -> bytes:
    """Return the message by which a client wants an answer no more."""
    return varint(number)


def decode_question(message: bytes) -> Question:
    """Take a client's message apart. Raises `NoMessageError` for bytes that are not one."""
    if len(message) > QUESTION_BYTES_MAX:
        raise NoMessageError(f"it is longer than {QUESTION_BYTES_MAX} bytes")
    try:
        number, at = read_varint(message, 0)
        if at == len(message):
            return Question(number, "", None)
        length, at = read_varint(message, at)
        name, body = message[at : at + length], message[at + length :]
        if len(name) < length:
            raise NoMessageError(UNDECODABLE)
        request_id = checked_id(name.decode("ascii", "replace"))
        return Question(number, request_id, pb.ReadRequest.FromString(body))
    except (IndexError, DecodeError) as error:
        raise NoMessageError(UNDECODABLE) from error


def encode_answer(number: int, run: bytes) -> Iterator[tuple[bytes, ...]]:
    """Yield the messages of an answer, each in pieces: the run is not copied."""
    head = varint(number)
    for pieces in part_pieces(run):
        yield (head, *pieces)


def encode_failed(number: int, failure: pb.Failure) -> tuple[bytes, bytes]:
    """Return the pieces of an answer that is an error."""
    return varint(number), pb.ReadReply(failure=failure).SerializeToString()


def number_of(message: bytes) -> tuple[int, int]:
    """Return the number of an answer, and where its `pb.ReadReply` begins (`decode_part`).

    Raises `NoMessageError`.
    """
    try:
        return read_varint(message, 0)
    except IndexError as error:
        raise NoMessageError(UNDECODABLE) from error


def decode_answer(message: bytes) -> AnswerPart:
    """Take a bookie's message apart. Raises `NoMessageError`, and the error that it answers."""
    number, at = number_of(message)
    return AnswerPart(number, decode_part(message, at))
