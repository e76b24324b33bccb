"""A web application of several replicas: one leads and takes messages, all of them show them.

    quire cluster up                        # in another terminal
    python examples/web_app.py 8001         # and 8002, 8003 in others
    curl -L -d 'hello' 127.0.0.1:8002/messages; curl 127.0.0.1:8003/messages

A follower sends a writer to the leader (307). Its test is tests/examples/test_web_app.py."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

import quire
from quire.errors import OutcomeUnknownError

LOG = "messages"


class Replica:
    """The messages of the log, in its order."""

    def __init__(self, client: quire.Client, address: str) -> None:
        self.client, self.address = client, address
        self.election = client.election(LOG)
        self.messages: list[str] = []
        self.log: quire.Log | None = None  # of the last turn of leading

    async def follow(self) -> None:
        async for record in self.client.read_log(LOG, follow=True, wait_for_log=True):
            self.messages.append(record.payload.decode())

    async def lead(self) -> None:
        while True:
            async with self.client.lead_log(LOG, candidate=self.address) as self.log:
                await self.log.wait_deposed()

    async def show(self, request: Request) -> Response:
        return JSONResponse(self.messages)

    async def add(self, request: Request) -> Response:
        if self.log is None or self.log.has_ended:
            leader = await self.election.leader()
            if leader is None or leader.candidate == self.address:
                return JSONResponse({"error": "there is no leader yet: try again"}, 503)
            return RedirectResponse(f"http://{leader.candidate}/messages", 307)
        try:
            await self.log.append(await request.body())
        except OutcomeUnknownError as error:  # read before sending it again
            return JSONResponse({"error": str(error)}, 504)
        return JSONResponse({"ok": True}, 201)


@contextlib.asynccontextmanager
async def replica(store: str, address: str) -> AsyncIterator[Starlette]:
    async with quire.connect(store) as client, asyncio.TaskGroup() as tasks:
        this = Replica(client, address)
        working = [tasks.create_task(this.follow()), tasks.create_task(this.lead())]
        routes = [Route("/messages", this.show), Route("/messages", this.add, methods=["POST"])]
        yield Starlette(routes=routes)
        for task in working:
            task.cancel()


async def main(port: int) -> None:
    async with replica("./quire-data", f"127.0.0.1:{port}") as app:
        await uvicorn.Server(uvicorn.Config(app, port=port)).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
