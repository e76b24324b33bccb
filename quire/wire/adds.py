"""The request of the Add stream, assembled by hand so that a run is copied once, or never.

A protobuf message would copy every run three times: into its own message, into the list of the
request, and into the serialized bytes. With runs of up to 1 MiB for each of three bookies that was
two thirds of a writer's CPU. What goes out is the same protobuf encoding (docs/formats.md, "Wire"):

    AddRequest = serialized fields without runs | for each run: tag 0x1a | size varint | AddRun
    AddRun     = serialized fields without run | tag 0x1a | size varint | run

The order of fields is free in protobuf, and concatenated parts are one message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from quire.entry import BookieId, LedgerId
from quire.wire import bookie_pb2 as pb
from quire.wire.reads import NoMessageError
from quire.wire.varint import read_varint, varint

METHOD: Final = f"/{pb.DESCRIPTOR.services_by_name['Bookie'].full_name}/Add"

UNDECODABLE: Final = "it cannot be decoded"

RUNS_PER_MESSAGE_MAX: Final = 32_768
"""More than a client puts into one: its smallest run is an explicit LAC of some 44 bytes, and a
message has 1 MiB of them. Empty runs cost far more memory than their bytes, so runs are counted
before a message is decoded.
"""

FIELDS_PASSED: Final = 64
"""A message of large runs has fewer fields, and is passed in as many steps. To count the tags of a
message in its bytes takes 0.6 ms for each MiB.
"""

APART_BYTES_MIN: Final = 64 * 1024
"""A run of so many bytes is a part of its own in a message. To copy it costs more than another
buffer in the call that sends the message; a smaller run costs less.
"""

_VARINT, _LENGTH = 0, 2
_FIXED: Final = {1: 8, 5: 4}
"""Wire types of protobuf, and the size of fixed ones."""

_RUN_TAG: Final = bytes([pb.AddRun.RUN_FIELD_NUMBER << 3 | 2])
_RUNS_TAG: Final = bytes([pb.AddRequest.RUNS_FIELD_NUMBER << 3 | 2])
_LONG_RUNS_TAG: Final = bytes([_RUNS_TAG[0] | 0x80])
"""How the same tag begins where a peer writes it with more bytes than needed. Decoders take it."""


class EncodedRun(NamedTuple):
    """A run on its way: what stands before it in its message, and the run itself. Or an explicit
    LAC, all of it before an empty run.
    """

    head: bytes
    run: bytes
    size: int
    """Bytes it takes in a message. An explicit LAC has no run, and takes some all the same."""


class AddKind(NamedTuple):
    """What the runs of one writer have in common."""

    ledger: LedgerId
    key: bytes
    """The ledger's access key."""
    recovery: bool = False
    """Whether they pass a fence."""
    deferred: bool = False
    """Whether they are answered before they are durable."""


class RunEncoder:
    """Prepares the runs of one writer: what stands before each of them is nearly always the same.

    Senders that keep step send the same run. It is prepared once, for all of them.

    Raises `ValueError` or `TypeError` for values that do not fit their fields.
    """

    __slots__ = ("_before", "_fields", "_last", "kind")

    def __init__(
        self, ledger: LedgerId, key: bytes, *, recovery: bool = False, deferred: bool = False
    ) -> None:
        self.kind = AddKind(ledger, key, recovery, deferred)
        fields = pb.AddRun(ledger=ledger, key=key, recovery=recovery, deferred=deferred)
        self._fields = fields.SerializeToString() + _RUN_TAG
        self._before = (-1, b"")
        """The size of the last run, and what stands before a run of that size."""
        self._last: EncodedRun | None = None

    def encode(self, run: bytes) -> EncodedRun:
        """Prepare a run; the run of the call before, the same object, is prepared already."""
        last = self._last
        if last is not None and last.run is run:
            return last
        size, head = self._before
        if size != len(run):
            size = len(run)
            head = self._fields + varint(size)
            head = _RUNS_TAG + varint(len(head) + size) + head
            self._before = size, head
        self._last = last = EncodedRun(head, run, len(head) + size)
        return last


def encode_run(
    ledger: LedgerId, key: bytes, run: bytes, *, recovery: bool = False, deferred: bool = False
) -> EncodedRun:
    """Prepare a run. Raises as `RunEncoder`."""
    return RunEncoder(ledger, key, recovery=recovery, deferred=deferred).encode(run)


def encode_lac(ledger: LedgerId, key: bytes, packet: bytes) -> EncodedRun:
    """Prepare an explicit LAC. Raises as `encode_run`."""
    fields = pb.AddRun(ledger=ledger, key=key, lac_packet=packet).SerializeToString()
    head = _RUNS_TAG + varint(len(fields)) + fields
    return EncodedRun(head, b"", len(head))


def encode_request(first: int, bookie: BookieId | None, runs: Sequence[EncodedRun]) -> list[bytes]:
    """Return the serialized request that carries some runs, numbered from `first` on, in parts.

    Large runs are parts as they are: senders of the same run share its bytes.
    """
    parts = list[bytes]()
    small = [pb.AddRequest(first=first, bookie=bookie).SerializeToString()]
    for head, run, _ in runs:
        small.append(head)
        if len(run) < APART_BYTES_MIN:
            small.append(run)
        else:
            parts += b"".join(small), run
            small = []
    if small:
        parts.append(b"".join(small))
    return parts


def count_runs(message: bytes, enough: int) -> int:
    """Return how many runs a serialized request has, or `enough` and one if it has more.

    Bytes that are not a message may be counted wrong: the decoder refuses them.
    """
    found = 0
    for tag, _ in _fields(message):
        found += tag == _RUNS_TAG[0]
        if found > enough:
            break
    return found


def _fields(message: bytes) -> Iterator[tuple[int, int]]:
    """Give the tag of each field of a message, and where the field ends."""
    at = 0
    with suppress(IndexError):  # where the message ends
        while True:
            tag, at = read_varint(message, at)
            kind = tag & 7
            if kind == _LENGTH:
                size, at = read_varint(message, at)
                at += size
            elif kind == _VARINT:
                _, at = read_varint(message, at)
            else:
                at += _FIXED.get(kind, 0)
            if at > len(message):
                return
            yield tag, at


def _may_have_too_many(message: bytes) -> bool:
    """Tell cheaply whether a message may have more than `RUNS_PER_MESSAGE_MAX` runs."""
    if len(message) <= 2 * RUNS_PER_MESSAGE_MAX:
        return False  # a run takes two bytes at least
    for passed, (_, end) in enumerate(_fields(message), 1):
        if passed == FIELDS_PASSED:
            tags = message.count(_RUNS_TAG, end) + message.count(_LONG_RUNS_TAG, end)
            return passed + tags > RUNS_PER_MESSAGE_MAX  # a tag has one of these bytes at least
    return False


def decode_request(message: bytes) -> pb.AddRequest:
    """Take a request apart. Raises `NoMessageError` for bytes that are not a message, and for a
    message of too many runs.
    """
    if _may_have_too_many(message) and (
        count_runs(message, RUNS_PER_MESSAGE_MAX) > RUNS_PER_MESSAGE_MAX
    ):
        raise NoMessageError(f"it has more than {RUNS_PER_MESSAGE_MAX} runs")
    try:
        return pb.AddRequest.FromString(message)
    except DecodeError as error:
        raise _undecodable(error)  # noqa: B904


def decode_reply(message: bytes) -> pb.AddReply:
    """Take a reply apart. Raises `NoMessageError` for bytes that are not a message."""
    try:
        return pb.AddReply.FromString(message)
    except DecodeError as error:
        raise _undecodable(error)  # noqa: B904


def _undecodable(error: DecodeError) -> NoMessageError:
    found = NoMessageError(UNDECODABLE)
    found.__cause__ = error  # a compiled `raise … from` leaves it out
    return found
