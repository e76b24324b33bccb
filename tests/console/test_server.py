"""A console with its server, over real sockets of this machine; its command and its options."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import click.testing
import httpx
import pytest

from quire.cli.console import show
from quire.cli.root import main
from quire.console.server import ConsoleOptions, serve_console
from quire.errors import ConfigurationError
from quire.gateway.tokens import Token
from quire.testing.cluster import MemoryCluster

FREE = "127.0.0.1:0"


@asynccontextmanager
async def served(
    cluster: MemoryCluster, options: ConsoleOptions
) -> AsyncIterator[tuple[str, str | None]]:
    ready: asyncio.Future[tuple[str, str | None]] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve_console(cluster.store_uri, options, lambda *where: ready.set_result(where))
    )
    serving.add_done_callback(lambda _: ready.cancel())
    try:
        yield await ready
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.real_time
async def test_the_printed_address_opens_the_console_and_a_tail_ends_with_it() -> None:
    cluster = MemoryCluster()
    async with httpx.AsyncClient(follow_redirects=True) as http:
        async with served(cluster, ConsoleOptions(FREE)) as (address, token):
            assert token
            assert (await http.get(address)).status_code == 401
            page = await http.get(f"{address}/open?token={token}")
            assert page.status_code == 200
            assert token not in str(page.url)
            assert (await http.get(f"{address}/static/htmx.min.js")).status_code == 200
            assert (await http.get(f"{address}/logs")).status_code == 200
            async with http.stream("GET", f"{address}/tail?log=gone") as stream:
                assert "event: end" in (await stream.aread()).decode()
        with pytest.raises(httpx.ConnectError):
            await http.get(f"{address}/livez")


@pytest.mark.real_time
async def test_tokens_of_a_file_are_not_told() -> None:
    options = ConsoleOptions(FREE, tokens=(Token("known"),))
    async with served(MemoryCluster(), options) as (address, token), httpx.AsyncClient() as http:
        assert token is None
        bearer = {"Authorization": "Bearer known"}
        assert (await http.get(f"{address}/api/v1/overview", headers=bearer)).status_code == 200


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--listen", "here"], "expected host:port"),
        (["--listen", "0.0.0.0:0"], "pass --insecure-network"),
        (["--listen", "0.0.0.0:0", "--insecure-network"], "pass --token-file"),
        (["--certificate", "none.pem"], "belong together"),
        (["--certificate", "none.pem", "--key", "none.pem"], "cannot be used"),
        (["--token-file", "none"], "cannot be read"),
    ],
)
def test_a_wrong_option_is_refused(arguments: list[str], says: str) -> None:
    command = ["console", "--store", "memory:", *arguments]
    done = click.testing.CliRunner().invoke(main, command)
    assert done.exit_code == 2, done.output
    assert says in done.stderr


def test_a_certificate_makes_an_address_of_the_network_fit(tmp_path: Path) -> None:
    """The address is not the trouble then, but the files are."""
    for name in ("c.pem", "k.pem"):
        (tmp_path / name).write_text("no certificate", encoding="utf-8")
    options = ConsoleOptions("0.0.0.0:0", (), tmp_path / "c.pem", tmp_path / "k.pem")
    with pytest.raises(ConfigurationError, match="cannot be used"):
        asyncio.run(serve_console("memory://nowhere", options, lambda *_: None))


@pytest.mark.real_time
async def test_connections_leave_descriptors_for_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("quire.console.server.descriptors_max", lambda: 256 + 20)
    async with AsyncExitStack() as stack:
        serving = served(MemoryCluster(), ConsoleOptions(FREE))
        address, _ = await stack.enter_async_context(serving)
        host, _, port = address.removeprefix("http://").rpartition(":")
        silent = []
        for _ in range(6):
            reader, writer = await asyncio.open_connection(host, port)
            stack.callback(writer.close)
            silent.append(reader)
        assert await silent[0].read() == b"", "five of twenty may be silent"
        assert not any(each.at_eof() for each in silent[1:])


async def test_a_command_takes_as_many_descriptors_as_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[bool] = []
    monkeypatch.setattr("quire.cli.console.allow_descriptors", lambda: raised.append(True))
    with pytest.raises(ConfigurationError):
        await show("memory://nowhere", ConsoleOptions("here"), lambda *_: None)
    assert raised == [True]
