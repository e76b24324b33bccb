"""The certificates of a client of Apache's bookies, while they are renewed."""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quire.bookkeeper.tls import ClientTls
from quire.bookkeeper.uri import BookieTls
from quire.errors import ConfigurationError
from quire.wire.certificates import TlsOptions
from quire.wire.identity import client_identity
from tests.wire.certificates import Directory, asking_context


def options_of(tls: TlsOptions) -> BookieTls:
    certificate, key, ca = map(str, tls.files)
    return BookieTls(ca, certificate, key, names=False)


def spoil(tls: TlsOptions) -> None:
    Path(tls.certificate).write_text("half of a f")


def test_each_connection_shows_the_certificate_of_now(tmp_path: Path) -> None:
    files = Directory(tmp_path)
    mine = files.client("orders")
    tls = ClientTls(options_of(mine), clock=time.monotonic)

    async def main() -> None:
        seen: asyncio.Queue[str] = asyncio.Queue()

        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.put_nowait(writer.get_extra_info("peercert")["subjectAltName"][0][1])
            writer.close()

        context = asking_context(files.bookie())
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]

        async def shown() -> str:
            loop = asyncio.get_running_loop()
            plain, inner = await loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
            made = await tls.over(plain, inner, "127.0.0.1")
            try:
                return await seen.get()
            finally:
                made.close()

        async with server:
            assert await shown() == client_identity("orders").name
            files.authority.client("renewed").write(tmp_path, "client-orders")
            assert await shown() == client_identity("renewed").name
            spoil(mine)
            assert await shown() == client_identity("renewed").name
            files.authority.client("again").write(tmp_path, "client-orders")
            assert await shown() == client_identity("again").name

    asyncio.run(main())


def test_files_that_cannot_be_used_are_named_at_the_start(tmp_path: Path) -> None:
    mine = Directory(tmp_path).client("orders")
    spoil(mine)
    with pytest.raises(ConfigurationError, match=r"client-orders\.pem"):
        ClientTls(options_of(mine), clock=time.monotonic)


@pytest.mark.parametrize("name", ["missing.pem", "a\0b"])
def test_a_file_that_cannot_be_there_is_named(tmp_path: Path, name: str) -> None:
    mine = options_of(Directory(tmp_path).client("orders"))
    with pytest.raises(ConfigurationError, match=name):
        ClientTls(replace(mine, ca=name), clock=time.monotonic)


def test_a_client_that_reconnects_reads_and_tells_of_an_unusable_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mine = Directory(tmp_path).client("orders")
    tls = ClientTls(options_of(mine), clock=time.monotonic)
    spoil(mine)
    made: list[str] = []
    make = ssl.create_default_context

    def counted(**options: Any) -> ssl.SSLContext:
        made.append("context")
        return make(**options)

    monkeypatch.setattr(ssl, "create_default_context", counted)

    class Gone(asyncio.SelectorEventLoop):
        async def start_tls(self, *arguments: Any, **options: Any) -> None:
            raise ConnectionResetError("the bookie ends")

    async def main() -> None:
        for _ in range(4):
            with pytest.raises(ConnectionResetError):
                await tls.over(asyncio.Transport(), asyncio.Protocol(), "b1")

    with asyncio.Runner(loop_factory=Gone) as runner:
        runner.run(main())
    assert len(made) == 1
    assert len(caplog.messages) == 1
