"""Two transports in memory, joined: what one end writes arrives at the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast


class Pipe(asyncio.Transport):
    """One end. `sent` is what it wrote; `limit` loses what goes beyond so many bytes."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.protocol = protocol
        self.other: Pipe | None = None
        self.sent = b""
        self.is_paused = False
        self._is_closing = False
        self._loop = asyncio.get_running_loop()

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self.sent += bytes(data)
            assert self.other is not None
            self._loop.call_soon(self.other.take, bytes(data))

    def take(self, data: bytes) -> None:
        if not self._is_closing:
            self.protocol.data_received(data)

    def write_eof(self) -> None:
        pass

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        for end in (self, self.other):
            if end is not None and not end._is_closing:
                end._is_closing = True
                self._loop.call_soon(end.protocol.connection_lost, None)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


class Recorder(asyncio.Protocol):
    """A protocol that keeps what it hears."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.received = b""
        self.lost: list[Exception | None] = []
        self.end: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)
        self.end.set_result(error)


def join(server: asyncio.Protocol, client: asyncio.Protocol) -> tuple[Pipe, Pipe]:
    """Join two protocols by pipes, the server's first."""
    ends = Pipe(server), Pipe(client)
    ends[0].other, ends[1].other = ends[1], ends[0]
    for end in ends:
        end.protocol.connection_made(end)
    return ends


async def until(done: Callable[[], bool]) -> None:
    """Let others run until something has happened."""
    while not done():  # noqa: ASYNC110  # on the simulator's loop, which has no idle waiting
        await asyncio.sleep(0)


async def turns(count: int = 5) -> None:
    """Let everything happen that bytes under way lead to, of both ends."""
    for _ in range(count):
        await asyncio.sleep(0)
