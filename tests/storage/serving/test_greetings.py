"""Clients of other protocols at the port for frames: counted, and logged with what they said."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from quire.storage.serving.limits import Reception
from quire.storage.serving.refusals import Refusals
from quire.storage.serving.run_listener import serve_runs
from quire.testing.bookie import MemoryBookie
from quire.wire.framed import GREETING
from quire.wire.transport import split_address

WRONG = {
    b"GET / HTTP/1.1\r\n\r\n": "it speaks HTTP",
    b"PRI * HTTP/2.0\r\n\r\n": "it speaks HTTP",
    b"\x16\x03\x01\x02\x00" + bytes(100): "it speaks TLS",
    b"quire/runs/9\n": "clients of quire",
    b"hi\n": "clients of quire",
}


async def say(address: str, said: bytes) -> None:
    """Say something, and return when the bookie has ended the connection."""
    host, port = split_address(address)
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(said)
    if len(said) < len(GREETING):
        writer.write_eof()
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()


@pytest.mark.real_time
@pytest.mark.parametrize("said", WRONG, ids=lambda said: repr(said[:8]))
async def test_a_wrong_greeting_is_counted_and_logged(
    said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    refusals = Refusals()
    reception = Reception(MemoryBookie("b1"), "b1", refusals=refusals)
    async with serve_runs(reception, "127.0.0.1:0", 100) as address:
        for _ in range(5):
            await say(address, said)
        await say(address, b"")
    assert refusals.counts == {"greeting": 5}, "who says nothing and goes is not counted"
    (line,) = [each for each in caplog.messages if "refused" in each]
    assert WRONG[said] in line
    assert repr(said[: len(GREETING)]) in line
