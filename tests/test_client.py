"""Connecting: stores that are named rightly, wrongly, or do not answer; and what closing does."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import quire
import quire.sync
from quire.errors import (
    ConfigurationError,
    HandleClosedError,
    NoSuchLedgerError,
    NoSuchLogError,
    NotEnoughBookiesError,
    QuireError,
    StoreUnavailableError,
)
from quire.metastore import create_store
from quire.metastore.place import cluster_store, resolve_store


def test_a_uri_is_taken_as_it_is() -> None:
    for uri in ("memory:", "sqlite:///x/metadata.db", "zk://a:1,b:2/root"):
        assert resolve_store(uri) == uri


def test_a_cluster_directory_stands_for_its_store(tmp_path: Path) -> None:
    (tmp_path / "metadata.db").touch()
    assert resolve_store(str(tmp_path)) == cluster_store(tmp_path)


@pytest.mark.parametrize("name", ["", "nowhere", "nowhere/metadata.db"])
def test_a_directory_without_a_cluster_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="quire cluster up"):
        resolve_store(str(tmp_path / name))


def test_a_store_that_does_not_exist_is_an_error_of_connect(tmp_path: Path) -> None:
    uri = cluster_store(tmp_path)
    with (
        pytest.raises(ConfigurationError, match="quire bookie format"),
        quire.sync.connect(uri),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["~nobody-of-this-name/data", "d" * 300, "d\0d"])
def test_a_name_of_no_directory_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name[:20].replace("\0", ".*")):
        resolve_store(name)


def test_a_store_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="store"):
        resolve_store(str(tmp_path))


def run_against(store: str, timeout: float = 10.0) -> None:
    async def main() -> None:
        async with quire.connect(store, timeout=timeout):
            pass

    asyncio.run(main())


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="zk://"):
        run_against("etcd://localhost")


def test_a_store_that_does_not_answer_is_a_typed_error() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # the kernel accepts, nobody speaks
        port = silent.getsockname()[1]
        with pytest.raises(StoreUnavailableError):
            run_against(f"zk://127.0.0.1:{port}/quire", timeout=0.5)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """An empty store."""

    async def make() -> str:
        made = await create_store(cluster_store(tmp_path))
        await made.close()
        return made.uri

    return asyncio.run(make())


def test_an_empty_cluster_answers_with_typed_errors(store: str) -> None:
    async def main() -> None:
        async with quire.connect(store) as client:
            assert client.bookies() == []
            assert await client.list_logs() == []
            assert await client.list_ledgers() == []
            with pytest.raises(NotEnoughBookiesError):
                await client.create_ledger()
            with pytest.raises(NoSuchLedgerError):
                await client.open_ledger(7)
            with pytest.raises(NoSuchLogError):
                await client.read_log("orders")
            with pytest.raises(NoSuchLogError):
                await client.log_info("orders")

    asyncio.run(main())


def test_after_the_block_the_client_is_closed(store: str) -> None:
    async def main() -> None:
        async with quire.connect(store) as client:
            election = client.election("office", "me")
        with pytest.raises(QuireError):
            await client.list_logs()
        with pytest.raises(QuireError):
            await election.leader()

    asyncio.run(main())


def test_leaving_the_block_ends_a_reader_in_another_task(store: str) -> None:
    async def main() -> None:
        async with quire.connect(store) as client:
            reader = await client.read_log("orders", follow=True, wait_for_log=True)
            waiting = asyncio.create_task(anext(reader))
            await asyncio.sleep(0)
        with pytest.raises(HandleClosedError, match="reader of log 'orders'"):
            await waiting

    asyncio.run(main())


def test_a_reader_in_another_thread_is_closed(store: str) -> None:
    with quire.sync.connect(store) as client:
        reader = client.read_log("orders", follow=True, wait_for_log=True)
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(lambda: next(reader))
            reader.close()
            with pytest.raises(HandleClosedError, match="reader of log 'orders'"):
                waiting.result()


def test_a_candidate_is_named_after_host_and_process(store: str) -> None:
    async def main() -> None:
        async with quire.connect(store) as client:
            assert client.election("office").candidate.startswith(socket.gethostname())

    asyncio.run(main())
