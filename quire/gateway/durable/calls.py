"""The calls of the protocol over HTTP. A stream's URL is `/v1/stream/{name}`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from typing import Final, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from quire.errors import InvalidRequestError
from quire.gateway.asked import name_in, path_of, payer_of
from quire.gateway.bodies import EVENTS
from quire.gateway.calls import Handler, HttpCall
from quire.gateway.durable.asking import (
    FORKED,
    SEQUENCE,
    content_type_of,
    is_closing,
    sender_of,
    wanted,
)
from quire.gateway.durable.bodies import body_of, payloads_of
from quire.gateway.durable.live import cursor, events
from quire.gateway.durable.numbers import EPOCH_MAX, SEQUENCE_MAX
from quire.gateway.durable.refusals import ProtocolAnswerError
from quire.gateway.durable.state import NOW, StreamState, offset_text, parse_offset
from quire.gateway.durable.streams import FoundStream, Streams
from quire.gateway.elections import check_log
from quire.gateway.limits import GatewayLimits
from quire.gateway.quotas import Direction, Quotas
from quire.log.records.position import Record
from quire.rights.guard import Guard
from quire.rights.roles import Action


class StreamGateway(Protocol):
    """The part of a gateway that streams need."""

    streams: Streams
    quotas: Quotas
    limits: GatewayLimits
    guard: Guard | None

    def body(self, request: Request) -> AbstractAsyncContextManager[bytes]:
        """Have the body of a request in the block."""
        ...


POLL_SECONDS: Final = 20.0
"""A read that waits for records waits for so long at most."""

_SHARED: Final = {"Cross-Origin-Resource-Policy": "cross-origin"}
_CACHED: Final = "private, max-age=60, stale-while-revalidate=300"
_FRESH: Final = "no-store"


def _answering(handler: Handler) -> Handler:
    """Answer refusals as the protocol wants, and let pages of other origins show each answer."""

    @wraps(handler)
    async def answer(gateway: StreamGateway, request: Request) -> Response:
        try:
            response = await handler(gateway, request)
        except ProtocolAnswerError as refusal:
            body = {"error": refusal.code, "message": str(refusal)}
            response = JSONResponse(body, refusal.status, dict(refusal.headers))
        response.headers.update(_SHARED)
        return response

    return answer


@_answering
async def create_stream(gateway: StreamGateway, request: Request) -> Response:
    """Create a stream, or find that it is there already as it is asked for."""
    if FORKED in request.headers:
        raise ProtocolAnswerError(
            501, "not_supported", "a stream is not forked: copy it with quire log copy"
        )
    name = name_in(request)
    check_log(name)
    state = wanted(request.headers)
    async with gateway.body(request) as body:
        payloads = payloads_of(state, body)
        gateway.quotas.check(payer_of(request), Direction.APPEND)
        gateway.quotas.charge(payer_of(request), Direction.APPEND, len(body), len(payloads))
        is_new, found = await gateway.streams.create(name, state, payloads)
    headers = _described(found)
    if is_new:
        headers["Location"] = str(request.base_url).rstrip("/") + path_of(request)
    return Response(b"", 201 if is_new else 200, headers)


@_answering
async def append_to_stream(gateway: StreamGateway, request: Request) -> Response:
    """Append the body to a stream, close the stream, or both."""
    gateway.quotas.check(payer_of(request), Direction.APPEND)
    name = name_in(request)
    headers = request.headers
    closes = is_closing(headers)
    sender = sender_of(headers, EPOCH_MAX, SEQUENCE_MAX)
    async with gateway.body(request) as body:
        if not body and not closes:
            raise InvalidRequestError("the body is empty: send bytes, or Stream-Closed: true")
        content_type, payloads = None, None
        if body:
            content_type = content_type_of(headers)
            if content_type is None:
                raise InvalidRequestError("Content-Type is missing: send the stream's")
            payloads = payloads_of(StreamState(content_type), body)
            if not payloads:
                raise InvalidRequestError("the list is empty: send at least one value")
        gateway.quotas.charge(payer_of(request), Direction.APPEND, len(body), len(payloads or ()))
        done = await gateway.streams.append(
            name, content_type, payloads, headers.get(SEQUENCE), sender, closes
        )
    answer = {"Stream-Next-Offset": offset_text(done.end)}
    if done.is_closed:
        answer["Stream-Closed"] = "true"
    if done.judged is not None:
        answer["Producer-Epoch"] = str(done.judged.epoch)
        answer["Producer-Seq"] = str(max(0, done.judged.sequence))
    is_new = done.is_new and sender is not None and payloads is not None
    return Response(status_code=200 if is_new else 204, headers=answer)


@_answering
async def read_stream(gateway: StreamGateway, request: Request) -> Response:
    """Read a stream from an offset on; with `live` wait for new records."""
    offset, live = _query(request)
    name = name_in(request)
    gateway.quotas.check(payer_of(request), Direction.READ)
    first = None if offset == NOW else parse_offset(offset)
    found = await gateway.streams.find(name)
    if offset == NOW:
        first = found.end
    if live == "sse":
        return _events(gateway, request, name, found, first)
    is_poll = live == "long-poll"
    if is_poll and first is not None and first >= found.end and not found.state.is_closed:
        seconds = min(POLL_SECONDS, gateway.limits.wait_seconds)
        if await gateway.streams.wait(name, first, seconds):
            found = await gateway.streams.find(name)
    records: list[Record] = []
    if first is None or first < found.end:
        records = await gateway.streams.records(name, first, found.end)
    body = body_of(found.state, records)
    gateway.quotas.charge(payer_of(request), Direction.READ, len(body), len(records))
    mark = cursor(request.query_params.get("cursor"), gateway.streams.clock()) if is_poll else None
    return _page(request, found, first, records, body, mark, is_now=offset == NOW)


def _page(
    request: Request,
    found: FoundStream,
    first: int | None,
    records: Sequence[Record],
    body: bytes,
    mark: str | None,
    *,
    is_now: bool,
) -> Response:
    following = records[-1].offset + 1 if records else first or 0
    is_end = following >= found.end
    is_closed = is_end and found.state.is_closed
    headers = {"Stream-Next-Offset": offset_text(following)}
    if is_end:
        headers["Stream-Up-To-Date"] = "true"
    if is_closed:
        headers["Stream-Closed"] = "true"
    if mark is not None:
        headers["Stream-Cursor"] = mark
        if not any(each.payload for each in records):
            return Response(status_code=204, headers=headers | {"Cache-Control": _FRESH})
    headers["Content-Type"] = found.state.content_type
    if is_now:
        return Response(body, 200, headers | {"Cache-Control": _FRESH})
    begun = "begin" if first is None else str(first)
    tag = f'"{found.state.id}:{begun}:{following}{":c" if is_closed else ""}"'
    headers |= {"ETag": tag, "Cache-Control": _CACHED}
    known = [each.strip() for each in request.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers)


def _events(
    gateway: StreamGateway, request: Request, name: str, found: FoundStream, first: int | None
) -> Response:
    guard, identity = gateway.guard, request.state.identity
    check = (lambda: None) if guard is None else guard.recheck(identity, Action.READ, name)
    charge = partial(gateway.quotas.charge, payer_of(request), Direction.READ)
    given = request.query_params.get("cursor")
    fresh = f"no-cache, {_FRESH}"
    headers = {"Content-Type": EVENTS, "Cache-Control": fresh, "X-Accel-Buffering": "no"}
    if not found.state.is_text:
        headers["Stream-SSE-Data-Encoding"] = "base64"
    source = events(gateway.streams, name, found, first, given, check, charge)
    return StreamingResponse(source, headers=headers)


@_answering
async def describe_stream(gateway: StreamGateway, request: Request) -> Response:
    """Describe a stream: its type, its end, and whether it is closed."""
    found = await gateway.streams.find(name_in(request), is_use=False)
    headers = _described(found)
    if found.state.ttl is not None:
        headers["Stream-TTL"] = str(found.state.ttl)
    if found.state.expires is not None:
        headers["Stream-Expires-At"] = found.state.expires
    return Response(b"", 200, headers)


@_answering
async def delete_stream(gateway: StreamGateway, request: Request) -> Response:
    """Delete a stream and its records."""
    await gateway.streams.delete(name_in(request))
    return Response(status_code=204)


def _described(found: FoundStream) -> dict[str, str]:
    headers = {
        "Content-Type": found.state.content_type,
        "Stream-Next-Offset": offset_text(found.end),
        "Cache-Control": _FRESH,
    }
    return headers | ({"Stream-Closed": "true"} if found.state.is_closed else {})


def _query(request: Request) -> tuple[str, str | None]:
    """Return where a read begins, and how it waits. Raises `InvalidRequestError`."""
    given = request.query_params
    offsets, live = given.getlist("offset"), given.get("live")
    if len(offsets) > 1:
        raise InvalidRequestError("give one offset")
    if live not in (None, "long-poll", "sse"):
        raise InvalidRequestError(f"live {live!r} is neither long-poll nor sse")
    if live is not None and not offsets:
        raise InvalidRequestError(f"give an offset with live={live}")
    return (offsets[0] if offsets else "-1"), live


_STREAM: Final = "/v1/stream/{name}"

STREAM_CALLS: Final = (
    HttpCall("HEAD", _STREAM, describe_stream, "Describe a stream", {}),
    HttpCall(
        *("GET", _STREAM, read_stream, "Read a stream"),
        {
            "offset": "a Stream-Next-Offset, -1 or now; -1 by default",
            "live": "long-poll or sse: wait for new records",
            "cursor": "the Stream-Cursor of the last answer",
        },
    ),
    HttpCall("PUT", _STREAM, create_stream, "Create a stream", {}),
    HttpCall("POST", _STREAM, append_to_stream, "Append to a stream, or close it", {}),
    HttpCall("DELETE", _STREAM, delete_stream, "Delete a stream", {}),
)
