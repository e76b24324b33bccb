"""Clients and readers by `await`, `async with` and `async for`."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Awaitable, Callable

import pytest

import quire
from quire.errors import HandleClosedError, InvalidRequestError, NoSuchLogError
from quire.testing import MemoryCluster
from tests.support.virtual import virtually

Scene = Callable[[MemoryCluster, quire.Client], Awaitable[None]]


def play(scene: Scene) -> None:
    async def main() -> None:
        with MemoryCluster() as cluster:
            async with quire.connect(cluster.store_uri) as client:
                async with await client.open_log("orders") as log:
                    await log.append_many([b"a", b"b"])
                await scene(cluster, client)

    virtually(main)


def test_a_log_is_read_without_await() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        assert [record.payload async for record in client.read_log("orders")] == [b"a", b"b"]

    play(scene)


def test_a_reader_ends_with_its_block() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        async with client.read_log("orders") as reader:
            assert reader.position == quire.BEGINNING
        with pytest.raises(HandleClosedError):
            await anext(reader)

    play(scene)


def test_a_reader_is_opened_by_await() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        reader = await client.read_log("orders")
        assert (await anext(reader)).payload == b"a"
        await reader.close()

    play(scene)


def test_a_loop_that_is_left_early_closes_its_reader() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        records = aiter(client.read_log("orders"))
        assert (await anext(records)).payload == b"a"
        await records.aclose()  # type: ignore[attr-defined]
        with pytest.raises(StopAsyncIteration):
            await anext(records)

    play(scene)


def test_an_opening_is_used_once() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        opening = client.read_log("orders")
        await (await opening).close()
        with pytest.raises(InvalidRequestError, match="opened before"):
            await opening

    play(scene)


def test_errors_of_opening_come_from_the_first_step() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        opening = client.read_log("nothing")
        with pytest.raises(NoSuchLogError):
            await anext(aiter(opening))

    play(scene)


def test_a_client_is_opened_by_await_and_closed_in_order() -> None:
    async def main() -> None:
        with MemoryCluster() as cluster:
            client = await quire.connect(cluster.store_uri)
            log = await client.open_log("orders")
            await log.append(b"a")
            await client.close()
            await client.close()
            with pytest.raises(HandleClosedError):
                await log.append(b"b")
            with pytest.raises(HandleClosedError):
                await client.list_ledgers()
            async with quire.connect(cluster.store_uri) as other:
                assert [each.payload async for each in other.read_log("orders")] == [b"a"]

    virtually(main)


def test_the_version_is_that_of_the_package() -> None:
    assert quire.__version__ == importlib.metadata.version("quire")
