"""The HTTP face of a gateway: the table of calls, and what each does.

The table is the one list of what a gateway answers: the routes, the OpenAPI document and a test of
the documentation are made from it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from quire.client import Client
from quire.errors import InvalidRequestError, NoSuchCursorError, NotFoundError, QuireError
from quire.extras import needed_for
from quire.gateway.answers import ElsewhereError, GatewayError, answer_to
from quire.gateway.batches import append_batch
from quire.gateway.bodies import (
    BYTES,
    EVENTS,
    JSON,
    LINES,
    appended,
    check_kind,
    lines_of,
    parse_json,
    parse_submission,
    record_fields,
)
from quire.gateway.consumers import Consumers
from quire.gateway.elections import check_log
from quire.gateway.limits import Admission, GatewayLimits, HeldPlace
from quire.gateway.metered import NO_ANSWER, GatewayMeter
from quire.gateway.owners import Owners
from quire.gateway.quotas import Direction, Quotas
from quire.gateway.readiness import StoreLook
from quire.gateway.reads import paced, read_page, stream_events
from quire.gateway.telling import KafkaFigures, status_of
from quire.gateway.tokens import Token, caller
from quire.inspect import LogInfo
from quire.log.records.position import LATEST, Position, Record, RepeatedAppend
from quire.places import Place, parse_place
from quire.rights.calls import HTTP
from quire.rights.guard import Guard
from quire.rights.roles import Action
from quire.version import __version__
from quire.wire.identity import Identity

with needed_for("quire gateway", "gateway"):
    from prometheus_client import CollectorRegistry
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

    from quire.gateway.asked import name_in, path_of, payer_of, seconds_of, whole
    from quire.gateway.browsers import BrowserGuard
    from quire.gateway.calls import HttpCall
    from quire.gateway.counted import CountedBody
    from quire.gateway.durable.calls import STREAM_CALLS
    from quire.gateway.durable.streams import Streams
    from quire.gateway.metrics import figures_of
    from quire.gateway.origins import check_origins, cross_origin
    from quire.gateway.sending import HoldingEndpoint, hold
    from quire.http_server import permit

LIMIT: Final = 1000
"""Records of a read that names no limit."""

LIMIT_MAX: Final = 10_000

PROTO: Final = Path(__file__).parent / "rpc" / "logs.proto"

_UNKNOWN: Final = "send Authorization: Bearer TOKEN"

_log = logging.getLogger(__name__)


class Gateway:
    """One gateway's application, without its server."""

    def __init__(
        self,
        client: Client,
        owners: Owners,
        limits: GatewayLimits,
        tokens: tuple[Token, ...] = (),
        guard: Guard | None = None,
        registry: CollectorRegistry | None = None,
        origins: Sequence[str] = (),
        *,
        is_local: bool = False,
    ) -> None:
        """Requests need one of the `tokens`, if there is any. The guard knows the rights of their
        holders; without it each may do everything. `registry` has the figures of the client, and
        gets the gateway's. Pages of the `origins` may send requests from a browser. `is_local`
        says that only this machine reaches it.

        Raises `ConfigurationError` for text that cannot be an origin, and for all origins
        without tokens.
        """
        self.client = client
        self.guard = guard
        self.owners = owners
        self.limits = limits
        self.is_ending = False
        self.tokens = tokens
        self.admission = Admission(limits)
        self.store = StoreLook(client.list_logs)
        self.meter = GatewayMeter()
        self.consumers = Consumers()
        self.kafka = KafkaFigures()
        self._time = asyncio.get_running_loop().time
        self.begun = _now()
        self.quotas = Quotas(limits, _now)
        self.streams = Streams(client, owners, limits.wait_seconds, time.time)
        self.figures = figures_of(
            self.meter, self.admission, self.quotas, owners, registry or CollectorRegistry()
        )
        """Returns the figures of the process, and the media type of that text."""
        allowed = check_origins(origins, has_tokens=bool(tokens))
        self.app = Starlette(
            routes=[
                Route(call.path, self._endpoint(call), methods=[call.method]) for call in CALLS
            ],
            middleware=[
                Middleware(
                    BrowserGuard,
                    origins=allowed,
                    address=owners.address,
                    is_open=is_local and not tokens,
                ),
                *cross_origin(allowed, {call.method for call in CALLS}),
            ],
            exception_handlers={404: _no_such_path, 405: _no_such_path},
        )
        # A redirect would have the decoded path, which may name another log.
        self.app.router.redirect_slashes = False

    def _endpoint(self, call: HttpCall) -> HoldingEndpoint:
        action = HTTP[call.method, call.path]
        return HoldingEndpoint(self.admission, partial(self._answer, call, action))

    async def _answer(
        self, call: HttpCall, action: Action | None, request: Request, held: HeldPlace
    ) -> Response:
        begun, status = self._time(), NO_ANSWER
        try:
            response = await self._respond(call, action, request, held)
            status = response.status_code
        finally:
            self.meter.answered(call.handler.__name__, str(status), self._time() - begun)
        return response

    async def _respond(
        self, call: HttpCall, action: Action | None, request: Request, held: HeldPlace
    ) -> Response:
        try:
            if action is not None:
                identity = caller(self.tokens, request.headers.get("authorization", ""))
                if identity is None:
                    body: dict[str, object] = {"error": "unauthorized", "message": _UNKNOWN}
                    self.meter.fail("unauthorized")
                    return JSONResponse(body, 401, {"WWW-Authenticate": "Bearer"})
                request.state.identity = identity
                if self.guard is not None and "name" in request.path_params:
                    self.guard.check_log(identity, action, name_in(request))
                permit(request.scope)
            held.take()
            response = await call.handler(self, request)
            hold(held, request, response)
            return response
        except ElsewhereError as error:
            location = error.address + path_of(request)
            if request.url.query:
                location += f"?{request.url.query}"
            self.meter.fail("elsewhere")
            there = {"error": "elsewhere", "message": str(error), "location": location}
            return JSONResponse(there, 307, {"Location": location})
        except (QuireError, GatewayError) as error:
            kind, body, headers = answer_to(error)
            self.meter.fail(kind.code)
            if kind.status >= 500:
                _log.warning("%s %s: %s", request.method, request.url.path, error)
            return JSONResponse(body, kind.status, dict(headers))
        except ClientDisconnect:
            return Response(status_code=400)  # read by no client

    def may(self, request: Request, action: Action, log: str) -> bool:
        """Return whether the caller of a request may carry out an action on a log."""
        identity: Identity = request.state.identity
        return self.guard is None or self.guard.may(identity, action, log)

    def body(self, request: Request) -> CountedBody:
        """Have the whole body in an `async with` block, counted in what is under way."""
        return CountedBody(self.admission, request.receive)


async def append(gateway: Gateway, request: Request) -> Response:
    """Append the records of the body, and answer once they are certain."""
    payer = payer_of(request)
    gateway.quotas.check(payer, Direction.APPEND)
    async with gateway.body(request) as body:
        batch = parse_submission(request.headers.get("content-type", ""), body)
        gateway.quotas.charge(payer, Direction.APPEND, len(body), len(batch.records))
        async with gateway.owners.writer(name_in(request)) as log:
            places = await append_batch(log, batch)
    is_repeated = None
    if batch.producer_sequence is not None:
        is_repeated = isinstance(places[0], RepeatedAppend)
    return Response(appended(places, is_repeated), 201, media_type=JSON)


async def read(gateway: Gateway, request: Request) -> Response:
    """Return records, as one JSON object, as lines, or as a stream of events."""
    query = request.query_params
    if EVENTS in request.headers.get("accept", ""):
        return await tail(gateway, request)
    following = query.get("from", "beginning")
    limit = whole(query.get("limit", str(LIMIT)), "limit", 1, LIMIT_MAX)
    wait = min(seconds_of(query.get("wait", "0")), gateway.limits.wait_seconds)
    name = name_in(request)
    place = parse_place(following)
    if place == LATEST:  # once: what is appended from here on is in this answer, or after it
        place = (await gateway.client.log_end(name)).position
        following = str(place)
    found = await _page(gateway, request, place, limit, wait)
    if found:
        following = str(found[-1].position.after)
    if LINES in request.headers.get("accept", ""):
        return Response(lines_of(found), headers={"Quire-Next": following}, media_type=LINES)
    return JSONResponse({"records": [record_fields(each) for each in found], "next": following})


async def _page(
    gateway: Gateway, request: Request, place: Place, limit: int, wait: float
) -> list[Record]:
    """Return the records of a page, within the quota of the caller."""
    payer = payer_of(request)
    gateway.quotas.check(payer, Direction.READ)
    found = await read_page(gateway.client, name_in(request), place, limit, wait)
    size = sum(len(each.payload) for each in found)
    gateway.quotas.charge(payer, Direction.READ, size, len(found))
    return found


async def tail(gateway: Gateway, request: Request) -> Response:
    """Stream records as server-sent events, and go on after `Last-Event-ID`."""
    place = request.headers.get("last-event-id") or request.query_params.get("from", "latest")
    name = name_in(request)
    guard, identity = gateway.guard, request.state.identity
    checks = [] if guard is None else [guard.recheck(identity, Action.READ, name)]
    charge = partial(gateway.quotas.charge, payer_of(request), Direction.READ)
    opening = partial(gateway.consumers.stream, "http", payer_of(request), name)
    events = paced(
        stream_events(gateway.client, name, parse_place(place), *checks), charge, opening
    )
    return StreamingResponse(
        events, media_type=EVENTS, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    )


async def read_one(gateway: Gateway, request: Request) -> Response:
    """Return the bytes of one record."""
    place = parse_place(request.path_params["place"])
    if not isinstance(place, int | Position):
        raise InvalidRequestError("name a record by its offset or position")
    name = name_in(request)
    found = await _page(gateway, request, place, 1, 0)
    if not found or place not in (found[0].offset, found[0].position):
        raise NotFoundError(f"log {name!r} has no record {request.path_params['place']}")
    headers = {"Quire-Offset": str(found[0].offset), "Quire-Position": str(found[0].position)}
    return Response(found[0].payload, headers=headers, media_type=BYTES)


async def list_logs(gateway: Gateway, request: Request) -> Response:
    """List the names of the logs that the caller may observe."""
    names = await gateway.client.list_logs()
    return JSONResponse(
        {"logs": [each for each in names if gateway.may(request, Action.OBSERVE, each)]}
    )


async def show_log(gateway: Gateway, request: Request) -> Response:
    """Describe a log."""
    return JSONResponse(_fields(await gateway.client.log_info(name_in(request))))


async def create_log(gateway: Gateway, request: Request) -> Response:
    """Create a log; the body may have options, as `quire log set` takes them."""
    check_log(name_in(request))
    options = await _json(gateway, request)
    if not all(isinstance(each, str) for each in options.values()):
        raise InvalidRequestError("the values of options are text")
    return JSONResponse(_fields(await gateway.client.create_log(name_in(request), options)), 201)


async def end(gateway: Gateway, request: Request) -> Response:
    """Return the position and the offset that the next record can have at the earliest."""
    linearizable = request.query_params.get("linearizable", "false")
    if linearizable not in ("true", "false"):
        raise InvalidRequestError(f"linearizable {linearizable!r} is not true or false")
    found = await gateway.client.log_end(name_in(request), linearizable=linearizable == "true")
    return JSONResponse({"offset": found.offset, "position": str(found.position)})


async def trim(gateway: Gateway, request: Request) -> Response:
    """Delete the records before the position or offset `before`."""
    before = parse_place(str((await _json(gateway, request)).get("before", "")))
    if not isinstance(before, int | Position):
        raise InvalidRequestError('send {"before": offset or position}')
    await gateway.client.trim_log(name_in(request), before)
    return Response(status_code=204)


async def list_cursors(gateway: Gateway, request: Request) -> Response:
    """List the cursors of a log."""
    found = await gateway.client.log_cursors(name_in(request)).list()
    return JSONResponse(
        {"cursors": [{"name": each.name, "position": str(each.position)} for each in found]}
    )


async def show_cursor(gateway: Gateway, request: Request) -> Response:
    """Return where a cursor is."""
    cursor = await gateway.client.log_cursors(name_in(request)).find(request.path_params["cursor"])
    return JSONResponse({"name": cursor.name, "position": str(cursor.position)})


async def move_cursor(gateway: Gateway, request: Request) -> Response:
    """Move a cursor forward to `position`, never back; create it there if it does not exist."""
    place = parse_place(str((await _json(gateway, request)).get("position", "")))
    if not isinstance(place, int | Position):
        raise InvalidRequestError('send {"position": offset or position}')
    cursors = gateway.client.log_cursors(name_in(request))
    name = request.path_params["cursor"]
    try:
        cursor = await cursors.find(name)
    except NoSuchCursorError:
        cursor = await cursors.open(name, place)
    at = await cursor.advance(place)
    return JSONResponse({"name": name, "position": str(at)})


async def delete_cursor(gateway: Gateway, request: Request) -> Response:
    """Delete a cursor."""
    await gateway.client.log_cursors(name_in(request)).delete(request.path_params["cursor"])
    return Response(status_code=204)


async def alive(gateway: Gateway, request: Request) -> Response:
    """Answer while the loop turns."""
    return JSONResponse({"status": "alive"})


async def ready(gateway: Gateway, request: Request) -> Response:
    """Answer 200 while the gateway takes requests and its metadata store answers."""
    reasons = ["the gateway ends"] if gateway.is_ending else []
    if (trouble := await gateway.store.trouble()) is not None:
        reasons.append(trouble)
    if reasons:
        return JSONResponse({"status": "not ready", "reasons": reasons}, 503)
    return JSONResponse({"status": "ready", "writes": len(gateway.owners.written())})


async def show_metrics(gateway: Gateway, request: Request) -> Response:
    """Return the gateway's and its client's figures, in the text format of Prometheus."""
    if gateway.guard is not None:
        gateway.guard.check_log(request.state.identity, Action.OBSERVE, None)
    body, kind = gateway.figures()
    return Response(body, media_type=kind)


async def show_status(gateway: Gateway, request: Request) -> Response:
    """Return the status of the gateway, for a console."""
    if gateway.guard is not None:
        gateway.guard.check_log(request.state.identity, Action.OBSERVE, None)
    return JSONResponse(status_of(gateway, _now()))


async def describe(gateway: Gateway, request: Request) -> Response:
    """Return the OpenAPI document of these calls."""
    return JSONResponse(openapi())


async def proto(gateway: Gateway, request: Request) -> Response:
    """Return the file that describes the gRPC service, for generators of clients."""
    return Response(PROTO.read_bytes(), media_type="text/plain")


_LOG: Final = "/v1/logs/{name}"
_READS: Final = {
    "from": "offset, position, time, txid:N, beginning or latest; beginning by default",
    "limit": f"how many records at most; {LIMIT} by default, {LIMIT_MAX} at most",
    "wait": "how long to wait for the first record, such as 30s; not at all by default",
}

CALLS: Final[tuple[HttpCall, ...]] = (
    HttpCall("GET", "/v1/logs", list_logs, "List the logs", {}),
    HttpCall("GET", _LOG, show_log, "Describe a log", {}),
    HttpCall("PUT", _LOG, create_log, "Create a log", {}),
    HttpCall("POST", f"{_LOG}/records", append, "Append records", {}),
    HttpCall("GET", f"{_LOG}/records", read, "Read records", _READS),
    HttpCall("GET", f"{_LOG}/records/{{place}}", read_one, "Read the bytes of one record", {}),
    HttpCall(
        "GET", f"{_LOG}/tail", tail, "Stream records", {"from": "as above; latest by default"}
    ),
    HttpCall(
        "GET", f"{_LOG}/end", end, "Find the end", {"linearizable": "true: after all appends"}
    ),
    HttpCall("POST", f"{_LOG}/trim", trim, "Delete the records before a place", {}),
    HttpCall("GET", f"{_LOG}/cursors", list_cursors, "List the cursors", {}),
    HttpCall("GET", f"{_LOG}/cursors/{{cursor}}", show_cursor, "Find a cursor", {}),
    HttpCall("PUT", f"{_LOG}/cursors/{{cursor}}", move_cursor, "Move or create a cursor", {}),
    HttpCall("DELETE", f"{_LOG}/cursors/{{cursor}}", delete_cursor, "Delete a cursor", {}),
    HttpCall("GET", "/v1/openapi.json", describe, "Describe these calls", {}, is_open=True),
    HttpCall("GET", "/v1/logs.proto", proto, "The service over gRPC", {}, is_open=True),
    HttpCall("GET", "/livez", alive, "Whether the process is alive", {}, is_open=True),
    HttpCall("GET", "/readyz", ready, "Whether the gateway is ready", {}, is_open=True),
    HttpCall("GET", "/v1/status", show_status, "What the gateway does now", {}),
    HttpCall("GET", "/metrics", show_metrics, "Figures for Prometheus", {}),
    *STREAM_CALLS,
)


def openapi() -> dict[str, Any]:
    """Return the table of calls as an OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    for call in CALLS:
        places = [part[1:-1] for part in call.path.split("/") if part.startswith("{")]
        parameters = [
            {"name": each, "in": "path", "required": True, "schema": {"type": "string"}}
            for each in places
        ]
        parameters += [
            {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
            for name, text in call.parameters.items()
        ]
        paths.setdefault(call.path, {})[call.method.lower()] = {
            "summary": call.summary,
            "description": (call.handler.__doc__ or "").strip(),
            "operationId": call.handler.__name__,
            "parameters": parameters,
            "responses": {"default": {"description": "an object with error and message"}},
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "quire gateway", "version": __version__},
        "paths": paths,
    }


async def _no_such_path(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    message = f"there is no {request.method} {request.url.path}: see /v1/openapi.json"
    return JSONResponse({"error": "no_such_call", "message": message}, status)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _json(gateway: Gateway, request: Request) -> Mapping[str, Any]:
    async with gateway.body(request) as body:
        if not body.strip():
            return {}
        # Browsers send other kinds for a page of another site without asking first.
        check_kind(request.headers.get("content-type", ""), JSON)
        found = parse_json(body)
    if not isinstance(found, Mapping):
        raise InvalidRequestError("the body must be a JSON object")
    return found


def _fields(info: LogInfo) -> dict[str, object]:
    return {
        "name": info.name,
        "log_id": info.log_id,
        "epoch": info.epoch,
        "sealed": info.is_sealed,
        "first_position": str(info.first_position),
        "first_offset": info.first_offset,
        "end_offset": info.end_offset,
        "segments": len(info.segments),
        "options": dict(info.options),
    }
