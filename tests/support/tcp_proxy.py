"""A TCP proxy of our own between a client and a server, which loses what it is told to lose.

    up    client → server        down    server → client

A direction can be delayed or blocked (bytes are kept, as on a network that loses packets: TCP would
send them again); a connection can be cut. Runs on the loop of the test.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

PING: Final = -2
EVENT: Final = -1
"""What stands where other frames have the number of their request."""

Filter = Callable[[int], bool]
"""Says by its number whether a frame from the server passes."""


class Direction:
    """What happens to bytes of one direction."""

    def __init__(self) -> None:
        self.delay_seconds = 0.0
        self._open = asyncio.Event()
        self._open.set()

    def block(self) -> None:
        """Keep whatever comes until `unblock`."""
        self._open.clear()

    def unblock(self) -> None:
        self._open.set()

    async def let_through(self) -> None:
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
        await self._open.wait()


class TcpProxy:
    """A proxy in front of one server. Made by `tcp_proxy`."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self.up, self.down = Direction(), Direction()
        self.connections = 0
        self.refuses = False
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None
        self.address = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def heal(self) -> None:
        self.up.unblock()
        self.down.unblock()
        self.refuses = False

    def cut(self) -> None:
        """Reset every connection; new ones are taken, unless `refuses` is set."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.transport.abort()
            return
        self.connections += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers += [writer, far_writer]
        for pump in (
            _pump(reader, far_writer, self.up),
            self._pump_down(far_reader, writer),
        ):
            self._tasks.append(asyncio.create_task(_carry(pump, writer, far_writer)))

    async def _pump_down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _pump(reader, writer, self.down)


async def _carry(pump: Coroutine[None, None, None], *writers: asyncio.StreamWriter) -> None:
    """Carry bytes one way; when that ends, or fails, the connection ends."""
    with suppress(OSError, asyncio.IncompleteReadError):
        await pump
    for writer in writers:
        writer.transport.abort()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction
) -> None:
    while data := await reader.read(65536):
        await direction.let_through()
        writer.write(data)
        await writer.drain()


class ZooKeeperProxy(TcpProxy):
    """Knows ZooKeeper's protocol far enough to tell frames apart, and so can lose some of them.

    A stream has no holes: a connection that lost an answer passes no other one, even when the proxy
    is healed.
    """

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.passes: Filter = lambda _: True
        self._dropped = 0
        self._changed = asyncio.Event()

    def drop_answers(self, *, but: int = 0) -> None:
        """Requests arrive and are carried out; nobody hears of it. The connection seems fine.

        The next `but` answers still pass.
        """
        left = iter(range(but))
        self.passes = lambda number: number in (PING, EVENT) or next(left, None) is not None

    def drop_events(self) -> None:
        """Watches fire and nobody hears of it."""
        self.passes = lambda number: number != EVENT

    async def until_dropped(self, count: int) -> None:
        """Return when so many frames were lost in all."""
        while self._dropped < count:
            self._changed.clear()
            await self._changed.wait()

    def heal(self) -> None:
        super().heal()
        self.passes = lambda _: True

    async def _pump_down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, spoiled = True, False
        while True:
            head = await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(head, "big"))
            await self.down.let_through()
            number = int.from_bytes(body[:4], "big", signed=True)
            is_answer = number not in (PING, EVENT)
            # The first frame answers the handshake and has no number.
            if first or (self.passes(number) and not (spoiled and is_answer)):
                writer.write(head + body)
                await writer.drain()
            else:
                spoiled = spoiled or is_answer
                self._dropped += 1
                self._changed.set()
            first = False


ProxyT = TypeVar("ProxyT", bound=TcpProxy)


@asynccontextmanager
async def proxy(kind: type[ProxyT], address: str) -> AsyncIterator[ProxyT]:
    """Run a proxy in front of host:port while the block runs."""
    host, _, port = address.rpartition(":")
    running = kind(host, int(port))
    await running.start()
    try:
        yield running
    finally:
        await running.stop()
