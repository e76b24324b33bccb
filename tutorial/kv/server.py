"""A replica: the store as a service, and its HTTP face.

    python -m tutorial.kv.server --store ./cluster --listen 127.0.0.1:8001

    GET /kv/<key>               {"value": …} or 404
    PUT /kv/<key>               {"value": …, "id": …}; with "expected" only if that is the value now
    DELETE /kv/<key>?id=…
    GET /status                 role, epoch, records applied

Only the leader answers; the others redirect to it (307). 400 says: the request is wrong. 503 says:
nothing was done, try again. 504 says: it may or may not be done; ask again with the same id.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

import quire
from quire.errors import (
    InvalidRequestError,
    LeadershipLostError,
    OutcomeUnknownError,
    QuireError,
)
from quire.service import Role, ServiceOptions
from tutorial.kv.store import Store

Work: TypeAlias = Callable[[], Awaitable[Response]]

SESSION_SECONDS = 2.0
ANSWER_SECONDS = 5
"""Nobody waits longer for an answer; at the end nobody is waited for longer who asks slowly."""


def make_command(key: str, body: object) -> bytes:
    """Return the command that a request asks for; ValueError if it is none.

    This must happen before the log: what is in it is applied by every replica at every start, so
    one command that the store cannot carry out would end the service for good.
    """
    if not isinstance(body, dict) or not isinstance(body.get("id"), str):
        raise ValueError("it must be an object with an id, which is a string")
    command = {"key": key, "id": body["id"], "value": body.get("value")}
    if "expected" in body:
        command["expected"] = body["expected"]
    if not all(value is None or isinstance(value, str) for value in command.values()):
        raise ValueError("values are strings")
    return json.dumps(command, ensure_ascii=False).encode()  # half a character is refused here


class Face:
    """The HTTP side of one replica."""

    def __init__(self, service: quire.Service[dict[str, object]], store: Store) -> None:
        self.service = service
        self.store = store

    async def read(self, request: Request) -> Response:
        """Linearizable: the barrier shows that we still lead, and that we have seen everything."""

        async def work() -> Response:
            await self.service.barrier()
            value = self.store.values.get(request.path_params["key"])
            return JSONResponse({"value": value}, 404 if value is None else 200)

        return await self.answered(request, work)

    async def write(self, request: Request) -> Response:
        try:
            if request.method == "PUT":
                body = await request.json()
            else:
                body = {**request.query_params, "value": None}
            command = make_command(request.path_params["key"], body)
        except (ValueError, RecursionError) as error:
            return JSONResponse({"error": f"not a request: {error}"}, 400)

        async def work() -> Response:
            answer = await self.service.submit(command)
            return JSONResponse(answer, 200 if answer["ok"] else 409)

        return await self.answered(request, work)

    async def status(self, request: Request) -> Response:
        service = self.service
        fields = {"role": service.role, "epoch": service.epoch, "applied": service.applied}
        return JSONResponse(fields)

    async def answered(self, request: Request, work: Work) -> Response:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await work()
        except LeadershipLostError:
            return await self.redirect(request)
        except (OutcomeUnknownError, TimeoutError) as error:
            return JSONResponse({"error": f"may or may not be done: {error}"}, 504)
        except InvalidRequestError as error:  # a value that no entry of a log can hold
            return JSONResponse({"error": str(error)}, 400)
        except QuireError as error:
            return JSONResponse({"error": str(error)}, 503)

    async def redirect(self, request: Request) -> Response:
        with contextlib.suppress(QuireError):
            leader = await self.service.leader()
            if leader is not None and leader.candidate != request.url.netloc:
                return RedirectResponse(str(request.url.replace(netloc=leader.candidate)), 307)
        return JSONResponse({"error": "nobody leads now"}, 503)


def make_app(face: Face) -> Starlette:
    return Starlette(
        routes=[
            Route("/kv/{key}", face.read, methods=["GET"]),
            Route("/kv/{key}", face.write, methods=["PUT", "DELETE"]),
            Route("/status", face.status, methods=["GET"]),
        ]
    )


@contextlib.asynccontextmanager
async def replica(store_uri: str, address: str, snapshot_records: int) -> AsyncIterator[Face]:
    """Run one replica; its address is its name in the election, so that others can redirect."""
    options = ServiceOptions(snapshot_records=snapshot_records)
    store = Store()
    async with (
        quire.connect(store_uri) as client,
        client.service(
            "kv", store, address, options=options, session_timeout=SESSION_SECONDS
        ) as service,
    ):
        yield Face(service, store)


async def serve(store_uri: str, address: str, snapshot_records: int) -> None:
    host, _, port = address.rpartition(":")
    async with replica(store_uri, address, snapshot_records) as face:
        config = uvicorn.Config(
            make_app(face),
            host=host,
            port=int(port),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=ANSWER_SECONDS,  # until we resign nobody else can lead
        )
        server = uvicorn.Server(config)
        watching = asyncio.create_task(end_with(face.service, server))
        try:
            await server.serve()
        finally:
            watching.cancel()


async def end_with(service: quire.Service[dict[str, object]], server: uvicorn.Server) -> None:
    """End the server when its replica has ended: it could only say for ever that nobody leads."""
    await service.wait_role(Role.STOPPED)
    server.should_exit = True


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--store", required=True, help="metadata store of the cluster")
    arguments.add_argument("--listen", required=True, help="host:port; also the replica's name")
    arguments.add_argument("--snapshot-records", type=int, default=10_000)
    options = arguments.parse_args()
    asyncio.run(serve(options.store, options.listen, options.snapshot_records))


if __name__ == "__main__":
    main()
