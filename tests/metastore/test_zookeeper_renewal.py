"""Files of TLS for ZooKeeper that change while a process runs."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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


def test_a_key_with_a_password_is_refused_and_not_asked_for(tmp_path: Path) -> None:
    mine = locked(Directory(tmp_path).client("orders"))
    with pytest.raises(ConfigurationError, match=r"client-orders-key\.pem has a password"):
        make_client("127.0.0.1:1", 1.0, options_of(mine), None, Listening(lambda _: None))
