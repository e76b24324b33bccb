"""Ending a peer's connection by the addresses of its two ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from quire.wire.peer_sockets import end_connection, parse_peer

SOON = 10.0


@pytest.mark.parametrize(
    ("peer", "found"),
    [
        ("ipv4:127.0.0.1:5000", ("127.0.0.1", 5000)),
        ("ipv6:%5B::1%5D:5000", ("::1", 5000)),
        ("ipv6:[fe80::1]:80", ("fe80::1", 80)),
        ("unix:/tmp/x", None),
        ("ipv4:127.0.0.1", None),
        ("", None),
    ],
)
def test_a_peer_has_host_and_port(peer: str, found: object) -> None:
    assert parse_peer(peer) == found


@pytest.mark.real_time
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_one_connection_is_ended_and_no_other(host: str) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        await end(writer)
        ended.release()

    ended = asyncio.Semaphore(0)
    async with asyncio.timeout(SOON):
        server = await asyncio.start_server(echo, host, 0)
        port = server.sockets[0].getsockname()[1]
        opened = [await asyncio.open_connection(host, port) for _ in range(3)]
        for reader, writer in opened:  # the server has accepted all of them
            writer.write(b"x")
            assert await reader.read(1) == b"x"
        mine = opened[1][1].get_extra_info("sockname")
        peer = f"ipv6:%5B{host}%5D:{mine[1]}" if ":" in host else f"ipv4:{host}:{mine[1]}"
        assert end_connection(peer)
        assert await opened[1][0].read(1) == b""
        for reader, writer in (opened[0], opened[2]):
            writer.write(b"x")
            assert await reader.read(1) == b"x"
        assert not end_connection(f"ipv4:192.0.2.1:{mine[1]}")
        for _, writer in opened:
            await end(writer)
            await ended.acquire()
        server.close()


async def end(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
