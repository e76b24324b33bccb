"""Wrong requests by number: number n of a seed is the same request in each run, so that a campaign
goes on where it ended, and one request can be sent again.

They are the requests of tests/wire/test_fuzz.py with a field or bytes changed, and bytes that never
were a request.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from quire.wire import bookie_pb2 as pb
from tests.wire.test_fuzz import KEY, REQUESTS, RUN, SEALER

NUMBERS: Final = [0, 1, 2, 7, 8, -1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63)]
VALUES: Final[dict[type, Callable[[random.Random], Any]]] = {
    int: lambda rng: rng.choice(NUMBERS),
    bool: lambda rng: rng.random() < 0.5,
    str: lambda rng: rng.choice(["", "b1", "b2", "b1b1"]),
    bytes: lambda rng: rng.choice(
        [b"", KEY, KEY[:-1], RUN, RUN[:-1], SEALER.seal_lac(5), rng.randbytes(rng.randrange(40))]
    ),
}


class Way(StrEnum):
    """How a request reaches the bookie."""

    GRPC = "grpc"
    FRAME = "frame"
    """As a message of a connection for runs."""
    STREAM = "stream"
    """As bytes in place of the greeting of a connection for runs."""
    PLAIN = "plain"
    """As bytes without TLS, to one of the ports."""


class Fuzzed(NamedTuple):
    """One wrong request."""

    way: Way
    method: str
    data: bytes


def request(seed: int, number: int) -> Fuzzed:
    """Return request `number` of a seed."""
    rng = random.Random(f"{seed}:{number}")
    way = rng.choices(list(Way), (70, 20, 6, 4))[0]
    if way in (Way.STREAM, Way.PLAIN):
        head = rng.choice([b"", b"quire/runs/1\n", b"quire/runs/2\n", b"PRI * HTTP/2.0\r\n\r\n"])
        return Fuzzed(way, rng.choice(["runs", "grpc"]), head + rng.randbytes(rng.randrange(400)))
    wanted = rng.choice([each for each in REQUESTS if way is Way.GRPC or each.method == "Add"])
    change = rng.choice([_alter, _damage])
    return Fuzzed(way, wanted.method, change(wanted.message, rng))


def _alter(message: Message, rng: random.Random) -> bytes:
    changed = type(message).FromString(message.SerializeToString())
    part: Any = changed
    if isinstance(changed, pb.AddRequest) and rng.random() < 0.5:
        part = rng.choice(list(changed.runs))
    name = rng.choice([each for each in part.DESCRIPTOR.fields_by_name if each != "runs"])
    with suppress(ValueError):  # out of the field's range: it stays as it was
        found = getattr(part, name)
        if name == "ledgers":  # a field with several numbers
            found[:] = [VALUES[int](rng) for _ in range(rng.randrange(5))]
        else:
            setattr(part, name, VALUES[type(found)](rng))
    return changed.SerializeToString()


def _damage(message: Message, rng: random.Random) -> bytes:
    data = bytearray(message.SerializeToString())
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(data))
        kind = rng.choice(["flip", "insert", "remove", "cut"])
        if kind == "insert":
            data[at:at] = rng.randbytes(rng.randint(1, 12))
        elif kind == "cut":
            del data[at:]
        elif kind == "remove":
            del data[at : at + rng.randint(1, 12)]
        elif at < len(data):
            data[at] ^= 1 << rng.randrange(8)
    return bytes(data)
