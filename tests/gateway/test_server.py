"""A gateway with its server, over real sockets of this machine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click.testing
import httpx
import pytest
import uvicorn
from aiokafka import AIOKafkaProducer

from quire.cli.gateway import read_tokens
from quire.cli.root import main
from quire.errors import ConfigurationError
from quire.gateway.limits import BODY_BYTES_MAX, GatewayLimits
from quire.gateway.place import GatewayPlace
from quire.gateway.server import serve_gateway
from quire.gateway.tokens import Token
from quire.testing.cluster import MemoryCluster
from quire.wire.identity import client_identity
from quire.wire.issuing import DAY
from tests.wire.certificates import authority

pytestmark = pytest.mark.real_time


@asynccontextmanager
async def served(cluster: MemoryCluster, limits: GatewayLimits | None = None) -> AsyncIterator[str]:
    async with placed(cluster, limits) as place:
        yield place.url


@asynccontextmanager
async def placed(
    cluster: MemoryCluster, limits: GatewayLimits | None = None
) -> AsyncIterator[GatewayPlace]:
    ready: asyncio.Future[GatewayPlace] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve_gateway(
            *(cluster.store_uri, "127.0.0.1:0"),
            kafka="127.0.0.1:0",
            limits=limits,
            on_ready=ready.set_result,
        )
    )
    serving.add_done_callback(lambda _: ready.cancel())
    try:
        yield await ready
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_a_gateway_serves_until_it_is_cancelled_and_hands_its_logs_over() -> None:
    cluster = MemoryCluster()
    async with served(cluster) as second, httpx.AsyncClient() as http:
        async with served(cluster) as first:
            sent = await http.post(f"{first}/v1/logs/orders/records", json="a")
            assert sent.status_code == 201
            moved = await http.post(f"{second}/v1/logs/orders/records", json="b")
            assert moved.headers["location"] == f"{first}/v1/logs/orders/records"
            follow = {"follow_redirects": True}
            followed = await http.post(f"{second}/v1/logs/orders/records", json="b", **follow)  # type: ignore[arg-type]
            assert followed.status_code == 201
        with pytest.raises(httpx.ConnectError):
            await http.get(f"{first}/livez")
        sent = await http.post(f"{second}/v1/logs/orders/records", json="c")
        assert sent.json()["records"][0]["offset"] == 2


async def test_http_and_kafkas_clients_share_a_log() -> None:
    async with placed(MemoryCluster()) as place, httpx.AsyncClient() as http:
        records = f"{place.url}/v1/logs/orders/records"
        sent = await http.post(records, json={"value": "a", "key": "k"})
        assert sent.status_code == 201
        producer = AIOKafkaProducer(bootstrap_servers=place.kafka)
        await producer.start()
        try:
            assert (await producer.send_and_wait("orders", b"b", key=b"l")).offset == 1
        finally:
            await producer.stop()
        found = (await http.get(records, params={"wait": "10s", "from": "1"})).json()["records"]
        assert [(each["value"], each["key"]) for each in found] == [("b", "l")]


async def test_a_stream_ends_when_its_reader_goes() -> None:
    cluster = MemoryCluster()
    async with served(cluster) as gateway, httpx.AsyncClient() as http:
        await http.post(f"{gateway}/v1/logs/orders/records", json="a")
        place = {"from": "beginning"}
        async with http.stream("GET", f"{gateway}/v1/logs/orders/tail", params=place) as events:
            assert events.headers["content-type"].startswith("text/event-stream")
            async for line in events.aiter_lines():
                if line.startswith("data: "):
                    assert '"value": "a"' in line
                    break


async def test_a_client_that_sends_a_body_in_vain_gets_its_answer() -> None:
    async with served(MemoryCluster()) as gateway, httpx.AsyncClient() as http:
        records = f"{gateway}/v1/logs/orders/records"
        for path, body, status in (
            (records, bytes(BODY_BYTES_MAX + 1), 413),
            (f"{gateway}/v1/nothing", bytes(BODY_BYTES_MAX), 404),
        ):
            connections = _connections(http)
            assert (await http.post(path, content=body)).status_code == status
            assert (await http.get(f"{gateway}/livez")).status_code == 200
            assert connections in ([], _connections(http)), "the connection was closed"


async def test_a_client_escapes_its_quota_under_no_other_name() -> None:
    limits = GatewayLimits(client_append_records_per_second=0.001)
    async with served(MemoryCluster(), limits) as gateway, httpx.AsyncClient() as http:
        records = f"{gateway}/v1/logs/orders/records"
        assert (await http.post(records, json="a")).status_code == 201
        named = {"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "https"}
        refused = await http.post(records, json="b", headers=named)
        assert (refused.status_code, refused.json()["error"]) == (429, "quota_exceeded")


def _connections(http: httpx.AsyncClient) -> list[object]:
    transport = http._transport
    assert isinstance(transport, httpx.AsyncHTTPTransport)
    return list(transport._pool.connections)


async def test_a_connection_outlives_the_idle_times_of_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configured: list[uvicorn.Config] = []

    class Config(uvicorn.Config):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            configured.append(self)

    monkeypatch.setattr(uvicorn, "Config", Config)
    async with served(MemoryCluster()):
        (config,) = configured
    assert config.timeout_keep_alive > 60, "a client may send as the server closes the connection"


async def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}"):
            await serve_gateway("memory://nowhere", f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--listen", "here"], "expected host:port"),
        (["--listen", "0.0.0.0:0"], "pass --insecure-network"),
        (["--listen", "127.example.org:0"], "pass --insecure-network"),
        (["--listen", "0.0.0.0:0", "--insecure-network"], "pass --token-file"),
        (["--kafka", "0.0.0.0:0"], "pass --insecure-network"),
        (["--kafka", "127.0.0.1:0", "--kafka-key", "k.pem"], "belong together"),
        (["--kafka-key", "k.pem"], "--kafka-key needs --kafka"),
        (["--limits", "reqests=1"], "did you mean 'requests'?"),
    ],
)
def test_a_wrong_option_is_refused(arguments: list[str], says: str) -> None:
    command = ["gateway", "serve", "--store", "memory:", *arguments]
    done = click.testing.CliRunner().invoke(main, command)
    assert done.exit_code == 2
    assert says in done.stderr


async def test_a_wildcard_is_told_to_no_client() -> None:
    with pytest.raises(ConfigurationError, match="with --advertise"):
        await serve_gateway(
            "memory://nowhere", "0.0.0.0:0", insecure_network=True, tokens=(Token("secret"),)
        )


async def test_a_port_with_tls_in_the_network_needs_tokens_and_no_consent(tmp_path: Path) -> None:
    certificate, key = authority().issue("gateway", None, ["localhost"], DAY).write(tmp_path, "g")
    serve = partial(serve_gateway, "memory://nowhere", "127.0.0.1:0")
    exposed = partial(serve, kafka="0.0.0.0:0", kafka_certificate=certificate, kafka_key=key)
    with pytest.raises(ConfigurationError, match="pass --token-file"):
        await exposed()
    with pytest.raises(ConfigurationError, match="--advertise"):
        await exposed(tokens=(Token("t"),))
    with pytest.raises(ConfigurationError, match="cannot be used"):
        await serve(kafka_certificate=key, kafka_key=certificate)


def test_tokens_are_lines_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("# ours\n\n  one \ntwo quire://client/two\n")
    assert read_tokens(file) == (Token("one"), Token("two", client_identity("two")))
    assert read_tokens(None) == ()
    for contents in (b"", b"# none\n", b"\xff\xfe\x00", b"secret a b\n", b"secret quire://*\n"):
        file.write_bytes(contents)
        with pytest.raises(ConfigurationError, match=str(file)) as caught:
            read_tokens(file)
        assert "secret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_tokens(tmp_path / "gone")


async def test_ports_share_the_descriptors_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quire.gateway.server.descriptors_max", lambda: 256 + 2 * 20)
    async with placed(MemoryCluster()) as place, AsyncExitStack() as stack:
        assert place.kafka is not None
        for address in (place.url.removeprefix("http://"), place.kafka):
            host, _, port = address.rpartition(":")
            silent = []
            for _ in range(6):
                reader, writer = await asyncio.open_connection(host, port)
                stack.callback(writer.close)
                silent.append(reader)
            assert await silent[0].read() == b"", "five of twenty may be silent"
            assert not any(each.at_eof() for each in silent[1:])
