"""The HTTP server of one process, for its applications: a socket, and uvicorn without signals."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn

from quire.aio.tasks import Tasks, first_of
from quire.errors import ConfigurationError
from quire.wire.transport import cannot_listen, split_address

GRACE_SECONDS: Final = 5
"""How long answers under way may take when a server ends."""

IDLE_SECONDS: Final = 75
"""A connection without requests is closed after so long. Clients and load balancers keep theirs
for 60 s at most by default, mostly. The one that closes it should be the client: a request that is
sent while the server closes the connection is lost, and only the client can tell.
"""


def bind(listen: str) -> socket.socket:
    """Return a socket that listens on host:port. Raises `ConfigurationError`."""
    host, port = split_address(listen)
    plain = host.strip("[]")
    try:
        family = socket.AF_INET6 if ":" in plain else socket.AF_INET
        return socket.create_server((plain, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(cannot_listen(listen)) from error


class _QuietServer(uvicorn.Server):
    """uvicorn's server without its handlers of signals: the command has its own."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell when requests are answered."""
        await super().startup(sockets)
        self.begun.set()


async def serve_application(
    application: Callable[..., Awaitable[None]],
    listening: socket.socket,
    *,
    ready: Callable[[], None],
    ending: Callable[[], Awaitable[None]],
    **more: Any,
) -> None:
    """Answer requests until cancelled. Then call `ending`, and let answers under way end.

    `ready` is called once requests are answered; `more` goes to `uvicorn.Config`.
    """
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,  # a program could name itself a proxy of any address
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        **more,
    )
    server = _QuietServer(config)
    serving = Tasks().keep(server.serve(sockets=[listening]))
    try:
        await first_of(server.begun.wait(), _ended(serving))
        ready()
        await _ended(serving)
    finally:
        await ending()
        server.should_exit = True
        await _ended(serving)


async def _ended(serving: asyncio.Future[None]) -> None:
    """Wait for the end of the server. A cancellation of the wait does not end it."""
    await asyncio.shield(serving)
