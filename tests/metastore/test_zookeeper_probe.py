"""Asking a port that is not ZooKeeper's how it is."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from quire.metastore.zookeeper_probe import probe

CHUNK = b"Node count: " + b"7" * 65_536
CHUNKS = 1000
CRUMBS = 1000


class Talker:
    """A server that takes one connection, and then sends what it is told."""

    def __init__(self, talk: Callable[[socket.socket], None]) -> None:
        self._talk = talk
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])

    def serve(self) -> None:
        with self._listening, suppress(OSError):
            connection, _ = self._listening.accept()
            with connection:
                self._talk(connection)


@contextmanager
def talking(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    talker = Talker(talk)
    thread = threading.Thread(target=talker.serve, daemon=True)
    thread.start()
    try:
        yield talker.port
    finally:
        thread.join()


def test_an_answer_without_end_is_given_up() -> None:
    sent = 0

    def flood(connection: socket.socket) -> None:
        nonlocal sent
        for _ in range(CHUNKS):
            connection.sendall(CHUNK)
            sent += 1

    with talking(flood) as port:
        assert probe("127.0.0.1", port) is None
    assert sent < CHUNKS


def test_an_answer_in_crumbs_is_given_up_in_time() -> None:
    sent = 0

    def crumble(connection: socket.socket) -> None:
        nonlocal sent
        connection.settimeout(0.01)
        while sent < CRUMBS:
            connection.sendall(b".")
            sent += 1
            with suppress(TimeoutError):
                connection.recv(64)  # the question, and then the time until the next crumb

    with talking(crumble) as port:
        assert probe("127.0.0.1", port, seconds=0.1) is None
    assert sent < CRUMBS


@pytest.mark.parametrize("count", ["9" * 5000, "12a", ""])
def test_a_count_that_is_none_is_no_status(count: str) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(64)
        lines = ("Zookeeper version: 3.9.3", "Mode: leader", "Zxid: 0x7", f"Node count: {count}")
        connection.sendall("\n".join(lines).encode())

    with talking(answer) as port:
        assert probe("127.0.0.1", port) is None
