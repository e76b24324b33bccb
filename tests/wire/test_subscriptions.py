"""Subscriptions over real connections, and peers of before."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from quire.errors import NotPermittedError
from quire.ledger.remote import RemoteBookie
from quire.ledger.subscription import Subscription
from quire.rights.roles import Action
from quire.storage.serving import run_listener
from quire.storage.serving.grpc_service import serve_bookie
from quire.testing.bookie import MemoryBookie
from quire.wire.framed import HELLO_GREETING, connect
from quire.wire.hello import Hello, decode_hello, encode_hello
from tests.rights.test_doors import Keeper, served
from tests.wire.link import KEY, SEALER, SOON, run_of

HERE = "127.0.0.1:0"


async def subscribe(stub: RemoteBookie) -> Subscription:
    found = await stub.subscribe(7, -1, 0, 10.0)
    assert found is not None
    return found


@pytest.mark.real_time
async def test_news_come_over_a_connection_of_their_own() -> None:
    async with served(Keeper(), "frames") as (stub, bookie, _):
        news = await subscribe(stub)
        await stub.add(7, KEY, run_of(0))
        await stub.add(7, KEY, run_of(1))
        await stub.write_lac(7, KEY, SEALER.seal_lac(1))
        found = [await news.next()]
        while found[-1].hint < 1:
            found.append(await news.next())
        assert b"".join(each.run for each in found) == run_of(0) + run_of(1)
        assert found[-1].lac_packet == SEALER.seal_lac(1)
        large = run_of(2, 900_000)
        await stub.add(7, KEY, large)
        await stub.add(7, KEY, run_of(3))
        assert (await news.next()).run.startswith(large), "larger than all credit"
        news.give_back(3)
        assert (await news.next()).run == run_of(3)
        await bookie.read_tail(7, fence_key=KEY)
        assert (await news.next()).fenced
        assert news.is_over


@pytest.mark.real_time
async def test_a_peer_without_the_right_to_read_is_denied() -> None:
    async with served(Keeper(Action.READ), "frames") as (stub, _, refusals):
        news = await subscribe(stub)
        with pytest.raises(NotPermittedError):
            await news.next()
        assert refusals.counts["rights"] == 1


@pytest.mark.real_time
async def test_bookies_of_before_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """They offer nothing, have no port for it, or greet as before there were hellos."""
    monkeypatch.setattr(run_listener, "FEATURES", frozenset())
    async with asyncio.timeout(SOON):
        async with serve_bookie(MemoryBookie("b1"), "b1", HERE, HERE) as address:
            for each in (address, replace(address, runs=None), replace(address, says_hello=False)):
                stub = RemoteBookie(each)
                assert await stub.subscribe(7, -1, 0, 10.0) is None
                await stub.add(7, KEY, run_of(0))
                await stub.close()


@pytest.mark.real_time
async def test_clients_of_before_get_a_stream_of_runs() -> None:
    async with asyncio.timeout(SOON):
        async with serve_bookie(MemoryBookie("b1"), "b1", HERE, HERE) as address:
            assert address.runs is not None
            connection = await connect(address.runs, HELLO_GREETING)
            await connection.write(encode_hello(Hello("client", features=frozenset({"later"}))))
            hello = decode_hello(await connection.read() or b"")
            assert hello.features == {"subscriptions", "reads"}
            connection.abort()
            stub = RemoteBookie(address)
            await stub.add(7, KEY, run_of(0))
            await stub.close()
