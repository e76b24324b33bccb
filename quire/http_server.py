"""The HTTP server of one process, for its applications: a socket, and uvicorn without signals."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import uvicorn

from quire.errors import ConfigurationError
from quire.wire.transport import cannot_listen, split_address

GRACE_SECONDS: Final = 5
"""How long answers under way may take when a server ends."""


def bind(listen: str) -> socket.socket:
    """Return a socket that listens on host:port. Raises `ConfigurationError`."""
    host, port = split_address(listen)
    plain = host.strip("[]")
    try:
        family = socket.AF_INET6 if ":" in plain else socket.AF_INET
        return socket.create_server((plain, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(cannot_listen(listen)) from error


class QuietServer(uvicorn.Server):
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
