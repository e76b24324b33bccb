"""Golden messages: one of each kind that the protocol has, and a conversation in plain frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from quire.bookie import BookieInfo, LedgerTail, LedgerUse, LedgerUses, UseKind
from quire.errors import (
    BookieBusyError,
    BookieUnavailableError,
    CorruptEntryError,
    CorruptStorageError,
    EntryUnknownError,
    InvalidRequestError,
    LedgerDisownedError,
    LedgerFencedError,
    LedgerRetiredError,
    NoSuchEntryError,
    NoSuchLedgerError,
    QuireError,
    ReadOnlyBookieError,
    UnauthorizedError,
    WrongBookieError,
)
from quire.outline import NOTHING, Outline
from quire.version import Speaks
from quire.wire import bookie_pb2 as pb
from quire.wire.adds import decode_reply, decode_request, encode_lac, encode_request, encode_run
from quire.wire.codec import (
    decode_failure,
    decode_info,
    decode_outlines,
    decode_ranges,
    decode_tail,
    encode_failure,
    encode_info,
    encode_outlines,
    encode_ranges,
    encode_tail,
)
from quire.wire.framed_reads import (
    decode_answer,
    decode_question,
    encode_answer,
    encode_give_up,
    encode_question,
)
from quire.wire.hello import Hello, Refusal, decode_hello, encode_hello
from quire.wire.reads import decode_part, encode_parts
from tests.golden.golden import Golden

BOOKIE, KEY, RUN, PACKET = "b" * 32, bytes(range(20)), b"a run's bytes", b"a packet"
INFO = BookieInfo(BOOKIE, True, 5, 10, 3, 1, {"flushes": 4})
TAIL = LedgerTail(b"frame", b"packet", 8, True)
OUTLINES = [Outline(0, 9, 10), None, NOTHING, Outline(3, 9, 5)]
LATER_INFO = BookieInfo(BOOKIE, True, 5, 10, 3, 1, {"flushes": 4}, 9)
USED_INFO = replace(
    LATER_INFO,
    in_use=LedgerUses((LedgerUse(7, UseKind.WRITES, "writer at 10.0.0.1:4711", 1.5),), 2),
)
LATER_ERRORS: tuple[QuireError, ...] = (
    NoSuchEntryError(7, 3, 9),
    LedgerDisownedError(7, 3, "another bookie holds it"),
)
"""Added to the messages after `ERRORS`."""
ERRORS: tuple[QuireError, ...] = (
    BookieUnavailableError(BOOKIE, "its disk is slow"),
    BookieBusyError(BOOKIE, "its memory is full"),
    ReadOnlyBookieError(BOOKIE, "its disk is full"),
    LedgerFencedError(7),
    NoSuchLedgerError(7),
    LedgerRetiredError(7),
    NoSuchEntryError(7, 3),
    EntryUnknownError(7, 3, "it is in limbo"),
    CorruptEntryError(7, 3, "its digest does not match"),
    CorruptStorageError("entries/1", "its footer is damaged"),
    UnauthorizedError(7),
    WrongBookieError("the server", "a", "b"),
    InvalidRequestError("a run of no frames"),
)


def _request() -> bytes:
    runs = [
        encode_run(7, KEY, RUN),
        encode_run(8, KEY, RUN, recovery=True),
        encode_run(9, KEY, RUN, deferred=True),
        encode_lac(7, KEY, PACKET),
    ]
    return b"".join(encode_request(1, BOOKIE, runs))


def _read_request(data: bytes) -> Any:
    request = decode_request(data)
    runs = [
        (each.ledger, each.key, each.run, each.recovery, each.deferred, each.lac_packet)
        for each in request.runs
    ]
    return request.bookie, request.first, runs


REQUEST = (
    BOOKIE,
    1,
    [
        (7, KEY, RUN, False, False, b""),
        (8, KEY, RUN, True, False, b""),
        (9, KEY, RUN, False, True, b""),
        (7, KEY, b"", False, False, PACKET),
    ],
)


def _reply() -> bytes:
    failure = encode_failure(LedgerFencedError(8), BOOKIE)
    return pb.AddReply(
        settled=4, failures=[pb.AddFailure(number=2, failure=failure)]
    ).SerializeToString()


def _read_reply(data: bytes) -> Any:
    reply = decode_reply(data)
    failures = [(each.number, repr(decode_failure(each.failure))) for each in reply.failures]
    return reply.settled, failures


def _errors(errors: tuple[QuireError, ...] = ERRORS) -> bytes:
    failures = [pb.AddFailure(failure=encode_failure(error, BOOKIE)) for error in errors]
    return pb.AddReply(failures=failures).SerializeToString()


def _read_errors(data: bytes) -> Any:
    return [repr(decode_failure(each.failure)) for each in decode_reply(data).failures]


def _message(
    name: str, message: Any, read: Callable[[Any], Any], value: Any, *parts: str
) -> Golden:
    kind = type(message)
    return Golden(
        f"{name}.message",
        value,
        lambda: message.SerializeToString(),
        lambda data: read(kind.FromString(data)),
        tuple(f"Wire: {each}" for each in (kind.__name__, *parts)),
    )


def _fields(message: Any) -> dict[str, Any]:
    return {field.name: value for field, value in message.ListFields()}


NEWS_REQUEST = pb.NewsRequest(
    bookie=BOOKIE,
    subscribe=[
        pb.Subscribe(subscription=3, ledger=7, above=8, first=9, bytes=4096, quiet_ms=30_000)
    ],
    credit=[pb.Credit(subscription=1, bytes=2048, first=5)],
    unsubscribe=[2],
)
NEWS_REPLY = pb.NewsReply(
    news=[
        pb.News(subscription=1, run=RUN, lac_packet=PACKET, hint=8),
        pb.News(subscription=3, hint=-1, fenced=True),
        pb.News(subscription=4, failure=encode_failure(LedgerRetiredError(7), BOOKIE)),
    ]
)


def _read_news_request(request: Any) -> Any:
    asked = [
        (each.subscription, each.ledger, each.above, each.first, each.bytes, each.quiet_ms)
        for each in request.subscribe
    ]
    credit = [(each.subscription, each.bytes, each.first) for each in request.credit]
    return request.bookie, asked, credit, list(request.unsubscribe)


def _read_question(message: bytes) -> Any:
    number, request_id, request = decode_question(message)
    return number, request_id, None if request is None else _fields(request)


def _read_answer(message: bytes) -> Any:
    number, (size, data) = decode_answer(message)
    return number, size, bytes(data)


def _read_news(reply: Any) -> Any:
    return [
        (each.subscription, each.run, each.lac_packet, each.hint, each.fenced)
        if not each.HasField("failure")
        else (each.subscription, repr(decode_failure(each.failure)))
        for each in reply.news
    ]


CLIENT = Hello("client", "0.1.0", Speaks(1, 2), frozenset({"bundles"}))
SUBSCRIBER = Hello("client", "0.1.0", Speaks(1, 2), frozenset({"subscriptions"}))
READER = Hello("client", "0.1.0", Speaks(1, 2), frozenset({"reads"}))
REFUSING = Hello(BOOKIE, "9.0", Speaks(7, 8), frozenset(), Refusal("it is too old", True))
_ASKED: dict[str, Any] = {"bookie": BOOKIE, "ledger": 7}
_READ: dict[str, Any] = {**_ASKED, "first": 2, "last": 9, "fence_key": KEY, "bytes_max": 4096}
READS = [
    b"".join(encode_question(3, "5e-3", pb.ReadRequest(**_READ).SerializeToString())),
    encode_give_up(3),
]
_SYNC: dict[str, Any] = {**_ASKED, "key": KEY, "first": 2, "last": 9}

WIRE = (
    Golden(
        "add-request.message",
        REQUEST,
        _request,
        _read_request,
        ("Wire", "Wire: AddRequest", "Wire: AddRun"),
    ),
    Golden(
        "add-reply.message",
        (4, [(2, repr(LedgerFencedError(8)))]),
        _reply,
        _read_reply,
        ("Wire: AddReply", "Wire: AddFailure"),
    ),
    Golden(
        "failures.message",
        [repr(error) for error in ERRORS],
        _errors,
        _read_errors,
        ("Wire: Failure",),
    ),
    Golden(
        "failures-2.message",
        [repr(error) for error in LATER_ERRORS],
        lambda: _errors(LATER_ERRORS),
        _read_errors,
        ("Wire: Failure",),
    ),
    Golden(
        "read-reply.message",
        (13, RUN),
        lambda: next(encode_parts(RUN)),
        lambda data: (decode_part(data).size, bytes(decode_part(data).data)),
        ("Wire: ReadReply",),
    ),
    _message("read-request", pb.ReadRequest(**_READ), _fields, _READ),
    _message(
        "read-tail-request",
        pb.ReadTailRequest(**_ASKED, fence_key=KEY),
        _fields,
        {**_ASKED, "fence_key": KEY},
    ),
    _message(
        "wait-tail-request",
        pb.WaitTailRequest(**_ASKED, above=3, timeout_ms=50),
        _fields,
        {**_ASKED, "above": 3, "timeout_ms": 50},
    ),
    _message("sync-request", pb.SyncRequest(**_SYNC), _fields, _SYNC),
    _message(
        "list-entries-request",
        pb.ListEntriesRequest(**_ASKED, first=0),
        _fields,
        {**_ASKED, "first": 0},
    ),
    _message(
        "list-ledgers-request",
        pb.ListLedgersRequest(bookie=BOOKIE, first=3),
        _fields,
        {"bookie": BOOKIE, "first": 3},
    ),
    _message(
        "outlines-request",
        pb.OutlinesRequest(bookie=BOOKIE, ledgers=[3, 9]),
        _fields,
        {"bookie": BOOKIE, "ledgers": [3, 9]},
    ),
    _message("info-request", pb.InfoRequest(bookie=BOOKIE), _fields, {"bookie": BOOKIE}),
    _message("tail-reply", encode_tail(TAIL), decode_tail, TAIL),
    _message(
        "list-entries-reply", encode_ranges([(0, 3), (9, 9)]), decode_ranges, [(0, 3), (9, 9)]
    ),
    _message("outlines-reply", encode_outlines(OUTLINES), decode_outlines, OUTLINES),
    _message("info-reply", encode_info(INFO), decode_info, INFO),
    _message("info-reply-2", encode_info(LATER_INFO), decode_info, LATER_INFO),
    _message("info-reply-3", encode_info(USED_INFO), decode_info, USED_INFO, "LedgerUse"),
    _message(
        "news-request",
        NEWS_REQUEST,
        _read_news_request,
        (BOOKIE, [(3, 7, 8, 9, 4096, 30_000)], [(1, 2048, 5)], [2]),
        *("Subscribe", "Credit"),
    ),
    _message(
        "news-reply",
        NEWS_REPLY,
        _read_news,
        [
            (1, RUN, PACKET, 8, False),
            (3, b"", b"", -1, True),
            (4, repr(LedgerRetiredError(7))),
        ],
        "News",
    ),
    Golden(
        "subscriptions.frames",
        [(BOOKIE, [(3, 7, 8, 9, 4096, 30_000)], [(1, 2048, 5)], [2])],
        lambda: _frame(encode_hello(SUBSCRIBER)) + _frame(NEWS_REQUEST.SerializeToString()),
        lambda data: [
            _read_news_request(pb.NewsRequest.FromString(each)) for each in _unframed(data)[1:]
        ],
        ("Subscriptions",),
    ),
    Golden(
        "reads.frames",
        [(3, "5e-3", _READ), (3, "", None)],
        lambda: _frame(encode_hello(READER)) + b"".join(map(_frame, READS)),
        lambda data: [_read_question(each) for each in _unframed(data)[1:]],
        ("Reads",),
    ),
    Golden(
        "read-answers.frames",
        [(3, len(RUN), RUN)],
        lambda: b"".join(_frame(b"".join(each)) for each in encode_answer(3, RUN)),
        lambda data: [_read_answer(each) for each in _unframed(data)],
        ("Reads",),
    ),
    Golden(
        "client.frames",
        [REQUEST],
        lambda: b"quire/runs/1\n" + len(_request()).to_bytes(4, "big") + _request(),
        lambda data: [_read_request(each) for each in _framed(data)],
        ("Wire: greeting",),
    ),
    Golden("client.hello", CLIENT, lambda: encode_hello(CLIENT), decode_hello, ("Hello",)),
    Golden("bookie.hello", REFUSING, lambda: encode_hello(REFUSING), decode_hello, ("Hello",)),
)


def _framed(data: bytes) -> list[bytes]:
    """Take a conversation of version 1 apart, by what docs/formats.md says."""
    assert data.startswith(b"quire/runs/1\n")
    return _unframed(data[len(b"quire/runs/1\n") :])


def _frame(message: bytes) -> bytes:
    return len(message).to_bytes(4, "big") + message


def _unframed(data: bytes) -> list[bytes]:
    at, messages = 0, []
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        messages.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return messages
