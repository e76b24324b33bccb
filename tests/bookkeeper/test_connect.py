"""`quire.connect` over TCP to bookies with Apache's habits: reading only, writing, START_TLS."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

import quire
from quire.bookie import BookieAddress
from quire.bookkeeper.protobuf import Message, encode
from quire.bookkeeper.registration import PROTOCOL, encode_registration
from quire.bookkeeper.status import Status
from quire.bookkeeper.wire3 import SIZE, Operation
from quire.errors import ConfigurationError, NotEnoughBookiesError, OpenedReadOnlyError
from quire.event_log import VARIABLE
from quire.ledger.quorum import Replication
from quire.metastore.memory import MemoryStore, MemoryTree
from quire.metastore.shared import offer_tree, withdraw_tree
from quire.metastore.store import MetadataStore
from quire.wire.certificates import TlsOptions
from quire.wire.issuing import Authority
from tests.support.apache_bookie import FakeApacheBookie
from tests.support.apache_cluster import LAYOUT, ROOT

NAME = "apache"
URI = f"memory://{NAME}?ledgers=bookkeeper:{ROOT}"
BOOKIES = 3

pytestmark = pytest.mark.real_time


class Tree:
    """A tree in memory that clients of this process share."""

    def __init__(self) -> None:
        self.tree = MemoryTree()

    def open(self) -> MetadataStore:
        return MemoryStore(self.tree)


async def serve(
    far: FakeApacheBookie,
    context: ssl.SSLContext | None,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
        while True:
            (size,) = SIZE.unpack(await reader.readexactly(SIZE.size))
            data = await reader.readexactly(size)
            header = Message(Message(data).data(1))
            if header.number(2) == Operation.START_TLS:
                status = Status.BAD_REQUEST if context is None else Status.OK
                head = encode([(1, 3), (2, Operation.START_TLS), (3, header.number(3))])
                answer: bytes | None = encode([(1, head), (2, status)])
            else:
                answer = await far.answer(data)
            if answer is not None:
                writer.write(SIZE.pack(len(answer)) + answer)
                await writer.drain()
            if header.number(2) == Operation.START_TLS and context is not None:
                await writer.start_tls(context)
    writer.close()


@asynccontextmanager
async def cluster(context: ssl.SSLContext | None = None) -> AsyncIterator[Tree]:
    """A cluster of which `connect` knows the URI only."""
    tree = Tree()
    store = tree.open()
    await store.create(f"{ROOT}/LAYOUT", LAYOUT)
    session = await store.open_session(60.0)
    servers: list[asyncio.Server] = []
    offer_tree(NAME, tree)
    try:
        for number in range(BOOKIES):
            far = FakeApacheBookie()
            server = await asyncio.start_server(
                lambda *ends, far=far: serve(far, context, *ends), "127.0.0.1", 0
            )
            servers.append(server)
            port = server.sockets[0].getsockname()[1]
            address = BookieAddress(f"bk{number}", f"127.0.0.1:{port}", protocol=PROTOCOL)
            path = f"{ROOT}/available/bk{number}"
            await session.create(path, encode_registration(address))
        yield tree
    finally:
        withdraw_tree(NAME)
        for server in servers:
            server.close()
        await store.close()


async def test_a_cluster_is_read_until_the_uri_allows_more() -> None:
    async with cluster() as tree:
        async with quire.connect(f"{URI}&write=true") as client:
            writer = await client.create_ledger(password=b"pw")
            await writer.append_many([b"one", b"two"])
            async with await client.open_log("orders") as log:
                await log.append(b"first")
        before = tree.tree.children("/quire")
        async with quire.connect(URI) as client:
            assert writer.ledger in await client.list_ledgers()
            reader = await client.open_ledger(writer.ledger, password=b"pw")
            assert [entry.payload async for entry in reader.read(0, None)] == [b"one", b"two"]
            assert [record.payload async for record in client.read_log("orders")] == [b"first"]
            with pytest.raises(OpenedReadOnlyError, match="write=true"):
                await client.create_ledger()
            assert tree.tree.children("/quire/clients") == [], "a reader leaves no trace"
        assert tree.tree.children("/quire") == before


async def test_bookies_are_spoken_to_over_tls_or_not_at_all(tmp_path: Path) -> None:
    authority = Authority.make()
    ca, _ = authority.pair.write(tmp_path, "ca")
    certificate, key = authority.bookie("bk", ["127.0.0.1"]).write(tmp_path, "bk")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with_tls = f"{URI}&write=true&bookie-tls=yes&bookie-ca={ca}"
    async with cluster(context), quire.connect(with_tls) as client:
        writer = await client.create_ledger()
        await writer.append(b"private")
        assert writer.last_confirmed == 0
    async with cluster(), quire.connect(with_tls) as client:
        with pytest.raises(quire.QuireError, match="does not speak TLS"):
            await client.bookie_info("bk0")


async def test_options_that_cannot_help_are_refused(tmp_path: Path) -> None:
    async with cluster():
        files = TlsOptions("a.pem", "b.pem", "c.pem")
        with pytest.raises(ConfigurationError, match="bookie-tls=yes"):
            await quire.connect(URI, tls=files)
        with pytest.raises(ConfigurationError, match=r"missing\.pem"):
            await quire.connect(f"{URI}&bookie-tls=yes&bookie-ca={tmp_path}/missing.pem")
        with pytest.raises(ConfigurationError, match="LAYOUT"):
            await quire.connect(f"memory://{NAME}?ledgers=bookkeeper:/nowhere")
        async with quire.connect(f"{URI}&write=true") as client:
            with pytest.raises(NotEnoughBookiesError):
                await client.create_ledger(Replication(5, 3, 2))


async def test_a_client_of_another_system_tells_no_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bookies tell none, so the specification would refuse what it told of itself."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    async with cluster(), quire.connect(f"{URI}&write=true") as client:
        writer = await client.create_ledger()
        await writer.append(b"x")
        await writer.close()
    assert os.listdir(tmp_path) == []
