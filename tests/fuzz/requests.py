"""Wrong requests by number: number n of a seed is the same request in each run, so that a campaign
goes on where it ended, and one request can be sent again.

They are the requests of tests/wire/test_fuzz.py with a field or bytes changed, connections for
subscriptions or reads with a wrong hello or message, and bytes that never were a request.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from quire.wire import bookie_pb2 as pb
from quire.wire.framed import HELLO_GREETING, pack_message
from quire.wire.framed_reads import encode_give_up, encode_question
from quire.wire.hello import READS as READS_USE
from quire.wire.hello import SUBSCRIPTIONS, Hello, encode_hello
from quire.wire.varint import varint
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
    NEWS = "news"
    """As a connection for subscriptions: greeting, hello, messages."""
    READS = "reads"
    """As a connection for reads: greeting, hello, messages."""
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
    way = rng.choices(list(Way), (52, 16, 6, 12, 10, 4))[0]
    if way is Way.NEWS:
        return _news(rng)
    if way is Way.READS:
        return _reads(rng)
    if way in (Way.STREAM, Way.PLAIN):
        head = rng.choice([b"", b"quire/runs/1\n", b"quire/runs/2\n", b"PRI * HTTP/2.0\r\n\r\n"])
        return Fuzzed(way, rng.choice(["runs", "grpc"]), head + rng.randbytes(rng.randrange(400)))
    wanted = rng.choice([each for each in REQUESTS if way is Way.GRPC or each.method == "Add"])
    change = rng.choice([_alter, _damage])
    return Fuzzed(way, wanted.method, change(wanted.message, rng))


def _question(number: int, request_id: str, **fields: Any) -> bytes:
    request = pb.ReadRequest(bookie="b1", ledger=7, bytes_max=1000, **fields)
    return b"".join(encode_question(number, request_id, request.SerializeToString()))


NEWS: Final = (
    pb.NewsRequest(
        bookie="b1",
        subscribe=[
            pb.Subscribe(subscription=1, ledger=7, above=-1, first=0, bytes=1000, quiet_ms=10),
            pb.Subscribe(subscription=2, ledger=8, above=-1, bytes=1, quiet_ms=1, key=KEY),
        ],
    ),
    pb.NewsRequest(
        bookie="b1",
        subscribe=[pb.Subscribe(subscription=3, ledger=7, above=1, first=2, bytes=300)],
        credit=[pb.Credit(subscription=1, bytes=500, first=1)],
        unsubscribe=[2],
    ),
    pb.NewsRequest(credit=[pb.Credit(subscription=3, bytes=2**20)], unsubscribe=[1, 9]),
)
HELLO: Final = Hello("a client", features=frozenset({SUBSCRIPTIONS}))


def _news(rng: random.Random) -> Fuzzed:
    """Return a connection with one wrong message, the hello or one of those after it."""
    hello = encode_hello(HELLO)
    if rng.random() < 0.2:
        said = _damage_bytes(hello, rng)
        return Fuzzed(Way.NEWS, "hello", HELLO_GREETING + pack_message(said) + _frames(NEWS))
    wrong = rng.randrange(len(NEWS))
    change = rng.choice([_alter_news, _damage])
    said = HELLO_GREETING + pack_message(hello) + _frames(NEWS[:wrong])
    said += pack_message(change(NEWS[wrong], rng)) + _frames(NEWS[wrong + 1 :])
    return Fuzzed(Way.NEWS, "news", said)


READS: Final = (
    _question(1, "", first=0, last=0),
    _question(2, "a-2", first=0, last=9, key=KEY),
    _question(5, "a-5", first=0, last=2, fence_key=KEY),
    encode_give_up(2),
)
READING: Final = Hello("a client", features=frozenset({READS_USE}))


def _reads(rng: random.Random) -> Fuzzed:
    """Return a connection with one wrong message, the hello or one of those after it."""
    messages, wrong = [encode_hello(READING), *READS], rng.randrange(1 + len(READS))
    number, rest = rng.choice(NUMBERS), messages[wrong][1:]
    change = rng.choice(["bytes", "bytes", "number", "twice", "long"])
    match change if wrong else "bytes":
        case "number":
            messages[wrong] = varint(number % 2**64) + rest
        case "twice":
            messages.insert(wrong, messages[wrong])
        case "long":
            messages[wrong] += rng.randbytes(rng.choice([1, 100, 70_000]))
        case _:
            messages[wrong] = _damage_bytes(messages[wrong], rng)
    said = b"".join(map(pack_message, messages))
    return Fuzzed(Way.READS, "reads" if wrong else "hello", HELLO_GREETING + said)


def _frames(messages: Iterable[Message]) -> bytes:
    return b"".join(pack_message(each.SerializeToString()) for each in messages)


def _alter_news(message: Message, rng: random.Random) -> bytes:
    """Change a field of a part, repeat a part, or put in very many."""
    changed = pb.NewsRequest.FromString(message.SerializeToString())
    parts: list[Any] = [*changed.subscribe, *changed.credit]
    part: Any = rng.choice(parts)
    match rng.choice(["field", "field", "twice", "many", "bookie"]):
        case "field":
            name = rng.choice(list(part.DESCRIPTOR.fields_by_name))
            with suppress(ValueError):  # out of the field's range: it stays as it was
                setattr(part, name, VALUES[type(getattr(part, name))](rng))
        case "twice":
            repeated = changed.subscribe if isinstance(part, pb.Subscribe) else changed.credit
            repeated.append(part)
        case "many":
            changed.unsubscribe.extend([rng.choice([0, 1, 2**64 - 1])] * rng.choice([2, 20_000]))
        case _:
            changed.bookie = VALUES[str](rng)
    return changed.SerializeToString()


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
    return _damage_bytes(message.SerializeToString(), rng)


def _damage_bytes(message: bytes, rng: random.Random) -> bytes:
    data = bytearray(message)
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
