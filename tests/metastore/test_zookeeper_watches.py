"""How many watches ZooKeeper has to keep for us: as many as somebody waits for, and no more."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from quire.cluster.zookeeper.server import ZooKeeperServer
from quire.metastore import zookeeper_connection, zookeeper_requests
from quire.metastore.store import MetadataStore
from quire.metastore.zookeeper import ZooKeeperStore

DEADLINE_SECONDS = 60.0
RECORDS = 20


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    words = {"4lw.commands.whitelist": "srvr,mntr"}
    with ZooKeeperServer(tmp_path, sync=False, settings=words) as running:
        yield running


def watches(server: ZooKeeperServer) -> int:
    """Return how many watches the server keeps."""
    with socket.create_connection(("127.0.0.1", server.port), 10.0) as connection:
        connection.sendall(b"mntr")
        said = b""
        while data := connection.recv(65536):
            said += data
    match = re.search(rb"^zk_watch_count\t(\d+)", said, re.MULTILINE)
    assert match is not None
    return int(match[1])


async def settle(store: MetadataStore) -> None:
    """Return when all that was asked before is done: requests are carried out in order."""
    for _ in range(4):
        await store.children("/")


async def cancel(*tasks: asyncio.Future[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_a_watch_nobody_waits_for_is_taken_back(server: ZooKeeperServer) -> None:
    async def main() -> None:
        store = await ZooKeeperStore.open(f"{server.uri}/root")
        async with asyncio.timeout(DEADLINE_SECONDS):
            versions = [await store.create(f"/d/{n}", b"") for n in range(RECORDS)]
            await store.create("/e/x", b"")
            waiting = [
                asyncio.ensure_future(store.wait(f"/d/{n}", versions[n])) for n in range(RECORDS)
            ]
            waiting += [asyncio.ensure_future(store.wait_children("/missing", []))]
            waiting += [asyncio.ensure_future(store.wait_children("/e", ["x"])) for _ in range(3)]
            await settle(store)
            assert watches(server) == RECORDS + 2
            # What changed already leaves nothing behind either.
            await store.wait("/d/1", None)
            await cancel(*waiting[1:])
            await settle(store)
            assert watches(server) == 1
            assert not waiting[0].done()
            again = asyncio.ensure_future(store.wait("/d/1", versions[1]))
            await settle(store)
            await store.put("/d/1", b"changed", versions[1])
            await again
            await store.put("/d/0", b"changed", versions[0])
            await waiting[0]
            await settle(store)
            assert watches(server) == 0
        await store.close()

    asyncio.run(main())


def test_one_of_two_who_wait_may_leave(server: ZooKeeperServer) -> None:
    async def main() -> None:
        store = await ZooKeeperStore.open(f"{server.uri}/root")
        async with asyncio.timeout(DEADLINE_SECONDS):
            version = await store.create("/a", b"")
            one = asyncio.ensure_future(store.wait("/a", version))
            other = asyncio.ensure_future(store.wait("/a", version))
            await settle(store)
            await cancel(one)
            await settle(store)
            assert watches(server) == 1
            await store.put("/a", b"changed", version)
            await other
        await store.close()

    asyncio.run(main())


def test_taking_back_what_has_fired_does_no_harm(
    server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch fires while its removal is on the way: the server has no such watch then."""
    removed: list[str] = []
    remove = zookeeper_requests.remove_watches

    def remove_twice(client: object, path: str) -> None:
        removed.append(path)
        remove(client, path)
        remove(client, path)

    monkeypatch.setattr(zookeeper_connection, "remove_watches", remove_twice)

    async def main() -> None:
        store = await ZooKeeperStore.open(f"{server.uri}/root")
        async with asyncio.timeout(DEADLINE_SECONDS):
            version = await store.create("/a", b"")
            session = await store.open_session(5.0)
            for _ in range(3):
                waiting = asyncio.ensure_future(store.wait("/a", version))
                await settle(store)
                await cancel(waiting)
            await settle(store)
            assert removed == ["/root/a"] * 3
            assert not session.expired
            await session.create("/live", b"")
        await store.close()

    asyncio.run(main())
