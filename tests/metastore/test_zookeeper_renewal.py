"""Files of TLS for ZooKeeper that change while a process runs."""

from __future__ import annotations

import queue
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quire.errors import ConfigurationError
from quire.metastore.zookeeper_client import Listening, make_client
from quire.metastore.zookeeper_uri import ZooKeeperOptions
from quire.wire.certificates import TlsOptions
from quire.wire.identity import client_identity, server_name
from tests.wire.certificates import Directory, asking_context, locked

HOST = server_name("b1")


@contextmanager
def serving(tls: TlsOptions) -> Iterator[tuple[int, queue.Queue[str]]]:
    """A server that asks for certificates; yields its port and the URIs of its clients."""
    context = asking_context(tls)
    seen: queue.Queue[str] = queue.Queue()

    def serve() -> None:
        with suppress(OSError):
            while True:
                plain, _ = listening.accept()
                with context.wrap_socket(plain, server_side=True) as connection:
                    names = (connection.getpeercert() or {})["subjectAltName"]
                    seen.put(str(names[0][1]))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listening.getsockname()[1]), seen
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def options_of(tls: TlsOptions) -> ZooKeeperOptions:
    certificate, key, ca = map(str, tls.files)
    return ZooKeeperOptions(tls=True, ca=ca, certificate=certificate, key=key)


def test_each_connection_shows_the_certificate_of_now(tmp_path: Path) -> None:
    files = Directory(tmp_path)
    mine = files.client("orders")
    client = make_client("127.0.0.1:1", 1.0, options_of(mine), None, Listening(lambda _: None))
    with serving(files.bookie("b1")) as (port, seen):

        def shown() -> str:
            where = {"address": ("127.0.0.1", port), "hostname": HOST, "timeout": 30.0}
            with client.handler.create_connection(**where):
                return seen.get()

        assert shown() == client_identity("orders").name
        files.authority.client("renewed").write(tmp_path, "client-orders")
        assert shown() == client_identity("renewed").name
        Path(mine.certificate).write_text("half of a f")
        assert shown() == client_identity("renewed").name
        files.authority.client("again").write(tmp_path, "client-orders")
        assert shown() == client_identity("again").name


def test_a_client_that_reconnects_reads_and_tells_of_an_unusable_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mine = Directory(tmp_path).client("orders")
    client = make_client("127.0.0.1:1", 1.0, options_of(mine), None, Listening(lambda _: None))
    Path(mine.certificate).write_text("half of a f")
    made: list[str] = []
    make = ssl.create_default_context

    def counted(**options: Any) -> ssl.SSLContext:
        made.append("context")
        return make(**options)

    def refuse(*_: object) -> None:
        raise ConnectionRefusedError("the server ends")

    monkeypatch.setattr(ssl, "create_default_context", counted)
    monkeypatch.setattr(socket, "create_connection", refuse)
    for _ in range(4):
        with pytest.raises(ConnectionRefusedError):
            client.handler.create_connection(address=("b1", 1), hostname=HOST, timeout=1.0)
    assert len(made) == 1
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("name", ["missing.pem", "a\0b"])
def test_a_file_that_cannot_be_there_is_named(tmp_path: Path, name: str) -> None:
    mine = replace(options_of(Directory(tmp_path).client("orders")), ca=name)
    with pytest.raises(ConfigurationError, match=name):
        make_client("127.0.0.1:1", 1.0, mine, None, Listening(lambda _: None))


def test_a_key_with_a_password_is_refused_and_not_asked_for(tmp_path: Path) -> None:
    mine = locked(Directory(tmp_path).client("orders"))
    with pytest.raises(ConfigurationError, match=r"client-orders-key\.pem has a password"):
        make_client("127.0.0.1:1", 1.0, options_of(mine), None, Listening(lambda _: None))
