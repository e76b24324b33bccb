"""A real ZooKeeper whose data is replaced by an older copy while clients live.

It hangs up on each client that has seen a later change than it has, and kazoo returns forever.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from quire.cluster.zookeeper.server import ZooKeeperServer
from quire.errors import SessionExpiredError, StoreUnavailableError, VersionConflictError
from quire.metastore import zookeeper, zookeeper_client, zookeeper_connection
from quire.metastore.changes import Put
from quire.metastore.zookeeper import ZooKeeperStore
from quire.metastore.zookeeper_client import BROKEN, Complaints
from quire.metastore.zookeeper_probe import ServerStatus

DEADLINE_SECONDS = 60.0
LEASE_SECONDS = 20.0
"""Longer than the server's absence: what ends the lease is the refusal."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path / "zookeeper", sync=False, tick_milliseconds=200) as running:
        yield running


async def with_older_data(
    server: ZooKeeperServer, body: Callable[[ZooKeeperStore, Callable[[], None]], Awaitable[None]]
) -> None:
    """Run a body with a store that has seen changes that a call undoes at the server."""
    copy = server.directory.with_name("copy")
    async with asyncio.timeout(DEADLINE_SECONDS):
        first = await ZooKeeperStore.open(server.uri)
        await first.create("/before", b"")
        await first.close()
        await asyncio.to_thread(server.stop)
        shutil.copytree(server.directory / "data", copy)
        await asyncio.to_thread(server.start)

        def put_back() -> None:
            server.stop()
            shutil.rmtree(server.directory / "data")
            shutil.copytree(copy, server.directory / "data")
            server.start()

        store = await ZooKeeperStore.open(server.uri)
        try:
            for number in range(20):
                await store.create(f"/after-{number}", b"")
            await body(store, put_back)
        finally:
            await store.close()


def test_a_client_begins_anew_at_an_older_server(
    server: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(store: ZooKeeperStore, put_back: Callable[[], None]) -> None:
        waiting = asyncio.ensure_future(
            store.wait("/after-1", (await store.get("/after-1")).version)
        )
        lease = await store.open_session(LEASE_SECONDS)
        await lease.create("/live", b"")
        await asyncio.to_thread(put_back)
        assert await store.children("/") == ["before", "zookeeper"]
        await store.create("/again", b"")
        await waiting
        await lease.wait_expired()
        with pytest.raises(SessionExpiredError, match=r"put back.*quire metadata adopt"):
            await lease.create("/live", b"")
        anew = await store.open_session(LEASE_SECONDS)
        await anew.create("/live", b"")

    with caplog.at_level(logging.ERROR, "quire.metastore.zookeeper"):
        asyncio.run(with_older_data(server, body))
    said = [record.getMessage() for record in caplog.records]
    assert any("ends at change 0x" in text and "this client has seen 0x" in text for text in said)
    assert not any("tls=yes" in text for text in said)


STALE: dict[str, Callable[[ZooKeeperStore, int], Awaitable[object]]] = {
    "put": lambda store, version: store.put("/before", b"open", version),
    "delete": lambda store, version: store.delete("/before", version),
    "commit": lambda store, version: store.commit([Put("/before", b"open", version)]),
}


@pytest.mark.parametrize("how", STALE)
def test_a_version_of_before_is_not_the_version_that_counts_the_same_since(
    server: ZooKeeperServer, how: str
) -> None:
    """One client read the record of another time; a second client changed it as often since."""

    async def body(store: ZooKeeperStore, put_back: Callable[[], None]) -> None:
        before = (await store.get("/before")).version
        stale = await store.put("/before", b"of a time that never was", before)
        await asyncio.to_thread(put_back)
        other = await ZooKeeperStore.open(server.uri)
        assert (await other.get("/before")).version == before, "it is the record of the copy"
        newer = await other.put("/before", b"closed", before)
        await other.close()
        with pytest.raises(VersionConflictError):
            await STALE[how](store, stale)
        found = await store.get("/before")
        assert (found.value, found.version) == (b"closed", newer)
        await store.wait("/before", stale)

    asyncio.run(with_older_data(server, body))


def test_a_server_that_cannot_be_asked_is_given_up_when_the_session_is_over(
    server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A TLS port, or a server without the word `srvr`."""
    monkeypatch.setattr(zookeeper, "CONNECTION_SECONDS", 1.0)
    monkeypatch.setattr(zookeeper_client, "probe", lambda host, port: None)

    async def body(store: ZooKeeperStore, put_back: Callable[[], None]) -> None:
        await asyncio.to_thread(put_back)
        assert await store.children("/") == ["before", "zookeeper"]

    asyncio.run(with_older_data(server, body))


def test_a_request_that_cannot_wait_is_told_what_was_found(
    server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_connection, "RENEW_SECONDS", DEADLINE_SECONDS)

    async def body(store: ZooKeeperStore, put_back: Callable[[], None]) -> None:
        await asyncio.to_thread(put_back)
        while store._connection._renewal is None:
            await store._connection._changed.wait()
        monkeypatch.setattr(zookeeper_connection, "READY_SECONDS", 0.05)
        with pytest.raises(StoreUnavailableError, match=r"put back.*adopt") as caught:
            await store.create("/x", b"")
        assert "tls" not in str(caught.value)

    asyncio.run(with_older_data(server, body))


@pytest.mark.parametrize(
    ("mode", "zxid", "older"),
    [
        ("standalone", 6, True),
        ("leader", 6, True),
        ("follower", 6, False),  # it lags
        ("observer", 6, False),
        ("standalone", 7, False),
    ],
)
def test_only_a_server_that_cannot_lag_is_proof(mode: str, zxid: int, older: bool) -> None:
    assert ServerStatus("3.9.3", mode, 1, zxid).is_older_than(7) is older


def test_tls_is_proposed_only_where_no_server_ever_answered() -> None:
    complaints = Complaints()
    assert complaints.text(may_be_tls=True) == ""
    complaints.add(f"Connection dropped: {BROKEN}")
    assert complaints.text(may_be_tls=True).endswith("add tls=yes to the URI")
    assert complaints.text(may_be_tls=False) == f": Connection dropped: {BROKEN}"
