"""The greeting of connections for runs: hellos of both sides, refusals in words, and version 1."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.bookie import BookieAddress
from quire.errors import BookieUnavailableError, ClientRefusedError
from quire.ledger.remote import RemoteBookie
from quire.storage.serving import run_listener
from quire.storage.serving.grpc_service import serve_bookie
from quire.testing.bookie import MemoryBookie
from quire.version import SPEAKS, Speaks
from quire.wire import bookie_pb2 as pb
from quire.wire.framed import GREETING, HELLO_GREETING, FramedConnection, connect
from quire.wire.hello import (
    HELLO_BYTES_MAX,
    Hello,
    Refusal,
    decode_hello,
    encode_hello,
    judge,
    shared,
)
from quire.wire.reads import NoMessageError
from tests.support.virtual import virtually
from tests.support.writing import Writing
from tests.wire.link import KEY, SOON, run_of

HERE = "127.0.0.1:0"

SPEAKS_ANY = st.tuples(st.integers(1, 9), st.integers(0, 9)).map(
    lambda pair: Speaks(pair[0], sum(pair))
)
REFUSALS = st.none() | st.builds(Refusal, st.text(max_size=20), st.booleans())
HELLOS = st.builds(
    Hello,
    st.text(max_size=40),
    st.text(max_size=10),
    SPEAKS_ANY,
    st.frozensets(st.text(max_size=8), max_size=4),
    REFUSALS,
    st.from_regex(r"[0-9A-Za-z._:-]{0,64}", fullmatch=True),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(HELLOS)
def test_a_hello_comes_back(hello: Hello) -> None:
    assert decode_hello(encode_hello(hello)) == hello


@given(HELLOS, st.dictionaries(st.text(max_size=5).map("later-{}".format), JSON))
def test_fields_of_a_later_program_are_ignored(hello: Hello, more: dict[str, Any]) -> None:
    message = json.dumps({**json.loads(encode_hello(hello)), **more}).encode()
    assert decode_hello(message) == hello


@pytest.mark.parametrize("stream", ["two words", "x" * 65, "a\nb", 7, None, ["a"]])
def test_a_stream_with_an_impossible_name_is_served_without_one(stream: object) -> None:
    message = {**json.loads(encode_hello(Hello("client"))), "stream": stream}
    assert decode_hello(json.dumps(message).encode()) == Hello("client")


def understood(message: bytes) -> Hello | None:
    try:
        return decode_hello(message)
    except NoMessageError:
        return None


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_bytes_that_are_not_a_hello_are_refused_by_name(message: bytes) -> None:
    assert understood(message) is None


@given(HELLOS, st.data())
def test_a_changed_hello_is_refused_or_understood(hello: Hello, data: st.DataObject) -> None:
    body = json.loads(encode_hello(hello))
    name = data.draw(st.sampled_from(sorted(body)))
    if data.draw(st.booleans()):
        del body[name]
    else:
        body[name] = data.draw(JSON)
    found = understood(json.dumps(body).encode())
    if found is not None:
        assert understood(encode_hello(found)) == found


@pytest.mark.parametrize(
    "message", [b" " * HELLO_BYTES_MAX + b"{}", b"[" * HELLO_BYTES_MAX, b"\xff", b""]
)
def test_a_hello_is_bounded(message: bytes) -> None:
    assert understood(message) is None


@given(HELLOS, HELLOS)
def test_a_client_is_served_at_a_level_that_both_speak(client: Hello, bookie: Hello) -> None:
    common = set(range(client.speaks.lowest, client.speaks.highest + 1)) & set(
        range(bookie.speaks.lowest, bookie.speaks.highest + 1)
    )
    assert (judge(client, bookie) is None) == bool(common)
    assert shared([client, bookie]) == client.features & bookie.features


def test_a_reason_for_a_log_says_little_of_a_client_and_in_one_line() -> None:
    client = Hello("c", version="9\nERROR the key is deleted" + "x" * 1000, speaks=Speaks(98, 99))
    refusal = judge(client, Hello("b1"))
    assert refusal is not None
    assert "\n" not in refusal.reason
    assert len(refusal.reason) < 300


@asynccontextmanager
async def served() -> AsyncIterator[BookieAddress]:
    async with asyncio.timeout(SOON):
        async with serve_bookie(MemoryBookie("b1"), "b1", listen_runs=HERE) as address:
            yield address


@asynccontextmanager
async def greeted(greeting: bytes) -> AsyncIterator[FramedConnection]:
    async with served() as address:
        assert address.runs is not None
        connection = await connect(address.runs, greeting)
        try:
            yield connection
        finally:
            connection.abort()


REQUEST = pb.AddRequest(
    bookie="b1", first=1, runs=[pb.AddRun(ledger=7, key=KEY, run=run_of(0))]
).SerializeToString()


def test_hellos_are_exchanged_and_runs_follow() -> None:
    async def main() -> None:
        async with greeted(HELLO_GREETING) as connection:
            await connection.write(encode_hello(Hello("client")))
            await connection.write(REQUEST)
            theirs = decode_hello(await connection.read() or b"")
            assert (theirs.identity, theirs.speaks, theirs.refusal) == ("b1", SPEAKS, None)
            reply = pb.AddReply.FromString(await connection.read() or b"")
            assert reply.settled == 1

    asyncio.run(main())


@pytest.mark.parametrize("says_hello", [True, False])
def test_clients_of_both_versions_add_runs(says_hello: bool) -> None:
    async def main() -> None:
        async with served() as address:
            stub = RemoteBookie(replace(address, says_hello=says_hello))
            await stub.add(7, KEY, run_of(0))
            await stub.add(7, KEY, run_of(1))
            assert await stub.list_entries(7) == [(0, 1)]
            await stub.close()

    asyncio.run(main())


def test_a_bookie_of_version_1_answers_without_a_hello() -> None:
    async def main() -> None:
        async with greeted(GREETING) as connection:
            await connection.write(REQUEST)
            reply = pb.AddReply.FromString(await connection.read() or b"")
            assert reply.settled == 1

    asyncio.run(main())


def test_a_refused_client_hears_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although it had sent runs already, more than the buffers of a socket hold."""

    def of_a_later_bookie(identity: str, **_: object) -> Hello:
        return Hello(identity, "9.0", Speaks(7, 8))

    monkeypatch.setattr(run_listener, "Hello", of_a_later_bookie)

    async def main() -> None:
        async with served() as address:
            stub = RemoteBookie(address)
            adds = [stub.add(7, KEY, run_of(entry, 1_000_000)) for entry in range(20)]
            results = await asyncio.gather(*adds, return_exceptions=True)
            assert {type(result) for result in results} == {ClientRefusedError}
            assert "the bookie (quire 9.0) speaks 7 to 8: upgrade the older one" in str(results[0])
            await stub.close()

    asyncio.run(main())


def test_a_refused_client_is_read_until_it_goes() -> None:
    """To close with bytes unread would destroy the refusal on its way."""

    async def main() -> None:
        async with greeted(HELLO_GREETING) as connection:
            await connection.write(encode_hello(Hello("client", speaks=Speaks(8, 9))))
            theirs = decode_hello(await connection.read() or b"")
            assert theirs.refusal is not None
            reading = asyncio.create_task(connection.read())
            await asyncio.wait([reading], timeout=run_listener.HELLO_SECONDS / 25)
            assert not reading.done(), "the bookie still reads"
            connection.abort()
            await reading

    asyncio.run(main())


@pytest.mark.parametrize("said", [b"", b"junk", b"{}", REQUEST])
def test_a_client_that_says_no_hello_is_told(said: bytes) -> None:
    async def main() -> None:
        async with greeted(HELLO_GREETING) as connection:
            await connection.write(said)
            theirs = decode_hello(await connection.read() or b"")
            assert theirs.refusal is not None
            assert "not a hello" in theirs.refusal.reason

    asyncio.run(main())


@given(st.binary(max_size=40))
def test_no_beginning_of_a_connection_harms_the_bookie(sent: bytes) -> None:
    async def main() -> None:
        async with served() as address:
            assert address.runs is not None
            host, _, port = address.runs.rpartition(":")
            _, writer = await asyncio.open_connection(host, int(port))
            message = struct.pack(">I", len(sent)) + sent
            writer.write(HELLO_GREETING + message if sent[:1] < b"\x80" else sent)
            writer.close()
            stub = RemoteBookie(address)
            await stub.add(7, KEY, run_of(0))
            await stub.close()

    asyncio.run(main())


def test_a_client_that_is_silent_after_its_greeting_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_listener, "HELLO_SECONDS", 0.01)

    async def main() -> None:
        async with greeted(HELLO_GREETING) as connection:
            assert await connection.read() is None

    asyncio.run(main())


def test_a_bookie_that_closes_instead_of_a_hello_is_unavailable() -> None:
    async def main() -> None:
        def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server = await asyncio.start_server(close, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        address = BookieAddress("b1", "127.0.0.1:1", runs=f"127.0.0.1:{port}", says_hello=True)
        stub = RemoteBookie(address)
        with pytest.raises(BookieUnavailableError):
            await stub.add(7, KEY, run_of(0))
        await stub.close()
        server.close()

    asyncio.run(main())


def test_a_refused_writer_ends_and_replaces_no_bookie() -> None:
    async def main() -> None:
        async with Writing() as world:
            await world.writer.append(b"0")
            before = (await world.metadata()).fragments
            for bookie in world.bookies.values():
                bookie.fail_with(ClientRefusedError("a", "it is too old"))
            with pytest.raises(Exception, match="refuses this client: it is too old"):
                await world.writer.append(b"1")
            assert (await world.metadata()).fragments == before

    virtually(main)
