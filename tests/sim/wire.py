"""Through the real codec and back: what a simulated message would be on a real wire.

Every request but those on streams, which are bytes anyway (streams.py), and every answer of a
simulated link is encoded by production's code, turned into bytes, and decoded by production's code,
as `RemoteBookie` and `BookieService` do around gRPC. What does not survive that trip does not
survive here either. Not here: delays and losses (network.py), and gRPC itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quire.bookie import LedgerTail
from quire.entry import BookieId
from quire.errors import QuireError
from quire.wire import bookie_pb2 as pb
from quire.wire.codec import (
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
from quire.wire.reads import decode_part, encode_parts

_Args = dict[str, Any]

_REQUESTS: Final[dict[str, Callable[..., Any]]] = {
    "read": pb.ReadRequest,
    "read_tail": pb.ReadTailRequest,
    "wait_tail": pb.WaitTailRequest,
    "sync": pb.SyncRequest,
    "list_entries": pb.ListEntriesRequest,
    "list_ledgers": pb.ListLedgersRequest,
    "outlines": pb.OutlinesRequest,
    "info": pb.InfoRequest,
}


def carry_request(method: str, bookie: BookieId, args: _Args) -> _Args:
    """Return the arguments that the server hands to its bookie."""
    fields = dict(args)
    if method == "wait_tail":
        fields["timeout_ms"] = round(fields.pop("timeout") * 1000)
    message = _REQUESTS[method]
    sent = message(bookie=bookie, **fields)
    received = message.FromString(sent.SerializeToString())  # type: ignore[attr-defined]
    assert received.bookie == bookie
    found = {name: getattr(received, name) for name in fields}
    if "fence_key" in found and not received.HasField("fence_key"):
        found["fence_key"] = None
    if method == "wait_tail":
        found["timeout"] = found.pop("timeout_ms") / 1000
    return found


def carry_answer(method: str, bookie: BookieId, outcome: Any) -> Any:
    """Return what the client is answered: a value, or the error to raise."""
    try:
        return _ANSWERS[method](bookie, outcome)
    except QuireError as error:
        return error


def _carry_reply(
    reply: Any, decode: Callable[[Any], Any], encode: Callable[[Any], Any]
) -> Callable[[BookieId, Any], Any]:
    def carry(bookie: BookieId, outcome: Any) -> Any:
        if isinstance(outcome, Exception):
            sent = reply(failure=encode_failure(outcome, bookie))
        else:
            sent = encode(outcome)
        return decode(reply.FromString(sent.SerializeToString()))

    return carry


def _carry_run(bookie: BookieId, outcome: Any) -> bytes:
    if isinstance(outcome, Exception):
        failure = pb.ReadReply(failure=encode_failure(outcome, bookie))
        decode_part(failure.SerializeToString())
    parts = [decode_part(message) for message in encode_parts(outcome)]
    assert {part.size for part in parts} == {len(outcome)}
    return b"".join(part.data for part in parts)


def _encode_tail(tail: LedgerTail) -> pb.TailReply:
    return encode_tail(tail)


_ANSWERS: Final[dict[str, Callable[[BookieId, Any], Any]]] = {
    "read": _carry_run,
    "read_tail": _carry_reply(pb.TailReply, decode_tail, _encode_tail),
    "wait_tail": _carry_reply(pb.TailReply, decode_tail, _encode_tail),
    "sync": _carry_reply(pb.ListEntriesReply, decode_ranges, encode_ranges),
    "list_entries": _carry_reply(pb.ListEntriesReply, decode_ranges, encode_ranges),
    "list_ledgers": _carry_reply(pb.ListEntriesReply, decode_ranges, encode_ranges),
    "outlines": _carry_reply(pb.OutlinesReply, decode_outlines, encode_outlines),
    "info": _carry_reply(pb.InfoReply, decode_info, encode_info),
}
