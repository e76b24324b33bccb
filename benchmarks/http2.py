"""Calls over HTTP/2 whose messages never end: gRPC's own client sends whole ones.

Half of a client: it begins calls and sends their bytes as far as the server's windows allow, and
reads no answer.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from contextlib import suppress
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WINDOW: Final = 65_535
"""The windows that a connection and its calls begin with."""

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_INITIAL_WINDOW: Final = 4
_FRAME_BYTES_MAX: Final = 16_384
_HEADERS_OF_ALL: Final = (
    (":method", "POST"),
    (":scheme", "http"),
    (":authority", "x"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
)


def message_of(size: int) -> bytes:
    """Return the beginning of a message of so many bytes, as gRPC announces it."""
    return struct.pack(">BI", 0, size)


def _frame(kind: int, flags: int, call: int, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, call) + body


def _header(name: str, value: str) -> bytes:
    """Encode a header without a table and without compression; both have less than 127 bytes."""
    return b"".join((b"\0", *(bytes([len(each)]) + each.encode() for each in (name, value))))


class Http2Calls:
    """The calls of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._window, self._initial = WINDOW, WINDOW
        self._windows: dict[int, int] = {}
        """By call."""
        self._next = 1
        self._pings = self._pinged = 0
        self._news = asyncio.Event()
        self.sent: Counter[int] = Counter()
        """Bytes that went out, by call."""
        self.ended: set[int] = set()
        """Calls that the server has ended."""
        self.is_over = False
        writer.write(PREFACE + _frame(_SETTINGS, 0, 0))
        self._listening = asyncio.create_task(self._listen())

    def begin(self, path: str) -> int:
        """Begin a call of a method, `/package.Service/Method`; return its number."""
        call, self._next = self._next, self._next + 2
        pairs = ((":path", path), *_HEADERS_OF_ALL)  # those with a colon come first
        headers = b"".join(_header(*pair) for pair in pairs)
        self._writer.write(_frame(_HEADERS, _END_HEADERS, call, headers))
        self._windows[call] = self._initial
        return call

    async def send(self, call: int, data: bytes) -> int:
        """Send data of a call as the windows allow; return how much went out before its end."""
        at = 0
        while at < len(data) and call not in self.ended and not self.is_over:
            room = min(self._window, self._windows[call], _FRAME_BYTES_MAX, len(data) - at)
            if room <= 0:
                self._news.clear()
                await self._news.wait()
                continue
            self._window -= room
            self._windows[call] -= room
            self.sent[call] += room
            self._writer.write(_frame(_DATA, 0, call, data[at : at + room]))
            at += room
            with suppress(ConnectionError):
                await self._writer.drain()
        return at

    async def ping(self) -> None:
        """Return when the server has taken all that was sent before, or the connection is over."""
        self._pings += 1
        wanted = self._pings
        self._writer.write(_frame(_PING, 0, 0, struct.pack(">Q", wanted)))
        while self._pinged < wanted and not self.is_over:
            self._news.clear()
            await self._news.wait()

    async def end_of(self, call: int) -> None:
        """Return when the server has ended a call, or the connection is over."""
        while call not in self.ended and not self.is_over:
            self._news.clear()
            await self._news.wait()

    async def close(self) -> None:
        """End the connection."""
        self._listening.cancel()
        self._writer.close()
        await asyncio.gather(self._listening, return_exceptions=True)

    async def _listen(self) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await self._reader.readexactly(9)
                kind, flags, call = struct.unpack(">BBI", head[3:])
                body = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
                self._take(kind, flags, call & 0x7FFFFFFF, body)
                self._news.set()
        self.is_over = True
        self._news.set()

    def _take(self, kind: int, flags: int, call: int, body: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            for key, value in struct.iter_unpack(">HI", body):
                if key == _INITIAL_WINDOW:
                    self._widen(value)
            self._writer.write(_frame(_SETTINGS, _ACK, 0))
        elif kind == _PING and flags & _ACK:
            (self._pinged,) = struct.unpack(">Q", body)
        elif kind == _PING:
            self._writer.write(_frame(_PING, _ACK, 0, body))
        elif kind == _WINDOW_UPDATE:
            size = int.from_bytes(body, "big")
            if call:
                self._windows[call] = self._windows.get(call, 0) + size
            else:
                self._window += size
        elif kind == _RESET or (kind == _HEADERS and flags & _END_STREAM):
            self.ended.add(call)

    def _widen(self, initial: int) -> None:
        for call in self._windows:
            self._windows[call] += initial - self._initial
        self._initial = initial


async def open_http2(address: str) -> Http2Calls:
    """Connect to host:port. Raises `OSError`."""
    host, _, port = address.rpartition(":")
    return Http2Calls(*await asyncio.open_connection(host, int(port)))
