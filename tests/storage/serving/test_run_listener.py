"""The port for plain frames: which connections have their messages taken apart ahead of time."""

from __future__ import annotations

import asyncio

import pytest

from quire.storage.serving.limits import Reception
from quire.storage.serving.run_listener import serve_runs
from quire.testing.bookie import MemoryBookie
from quire.version import Speaks
from quire.wire import bookie_pb2 as pb
from quire.wire.adds import encode_request, encode_run
from quire.wire.framed import HELLO_GREETING, FramedConnection, connect
from quire.wire.framed_reads import encode_question
from quire.wire.hello import READS, SUBSCRIPTIONS, Hello, decode_hello, encode_hello
from tests.wire.link import KEY, SOON, run_of

FIRST: dict[str, bytes] = {
    "runs": b"".join(encode_request(1, "b1", [encode_run(7, KEY, run_of(0))])),
    READS: b"".join(encode_question(1, "", pb.ReadRequest(bookie="b1").SerializeToString())),
    SUBSCRIPTIONS: pb.NewsRequest(
        bookie="b1", subscribe=[pb.Subscribe(subscription=1, bytes=1000)]
    ).SerializeToString(),
}
"""A message that is answered, by the use of a connection."""


@pytest.mark.real_time
@pytest.mark.parametrize("use", FIRST)
async def test_only_messages_of_runs_are_taken_apart_without_a_limit(
    use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlimited: list[FramedConnection] = []
    monkeypatch.setattr(FramedConnection, "take_all", lambda self: unlimited.append(self))
    reception = Reception(MemoryBookie("b1"), "b1")
    async with asyncio.timeout(SOON), serve_runs(reception, "127.0.0.1:0", 100) as address:
        client = await connect(address, HELLO_GREETING)
        await client.write(encode_hello(Hello("client", features=frozenset({use}))))
        assert await client.read(), "its hello"
        await client.write(FIRST[use])
        assert await client.read(), "its answer"
        assert len(unlimited) == (use == "runs")
        client.close()


@pytest.mark.real_time
async def test_messages_of_a_refused_client_are_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    reception, charged = Reception(MemoryBookie("b1"), "b1"), asyncio.Event()

    async def charge(peer: str) -> None:
        assert peer == "127.0.0.1"
        charged.set()

    monkeypatch.setattr(reception.messages, "wait", charge)
    async with asyncio.timeout(SOON), serve_runs(reception, "127.0.0.1:0", 100) as address:
        client = await connect(address, HELLO_GREETING)
        await client.write(encode_hello(Hello("client", speaks=Speaks(98, 99))))
        message = await client.read()
        assert message is not None
        assert decode_hello(message).refusal is not None
        await client.write(b"")
        await charged.wait()
        client.close()
