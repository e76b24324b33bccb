"""PostgreSQL, Redis, etcd and NATS as peers: all that needs none of their servers."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from benchmarks.peers import etcd, etcd_messages, others, postgresql, programs, report
from benchmarks.peers.log_peer import LogPeer, append
from benchmarks.peers.machine import with_children
from benchmarks.peers.peer import PeerError, Took, UnavailableError
from benchmarks.peers.processes import Processes
from benchmarks.peers.programs import Wanted
from benchmarks.peers.report import Results, Run
from benchmarks.peers.rounds import Rounds
from benchmarks.peers.workloads import READ_FROM, WORKLOADS, Workload
from quire.bench.figures import Figures, RawLimits

LOG = next(each for each in WORKLOADS if each.kind == "log")
WANTED = Wanted(("a-server",), ("a-package",), "usr/no/such/place")


# --- configurations -------------------------------------------------------------------------------


def test_a_commit_of_postgresql_waits_for_one_of_two_standbys() -> None:
    lines = postgresql.configuration("primary", 5001, 5001).splitlines()
    assert "synchronous_standby_names = 'ANY 1 (a, b)'" in lines
    assert "synchronous_commit = 'on'" in lines
    assert "primary_conninfo = ''" in lines


def test_a_standby_of_postgresql_has_its_name() -> None:
    lines = postgresql.configuration("b", 5003, 5001).splitlines()
    assert "port = '5003'" in lines
    (primary,) = (line for line in lines if line.startswith("primary_conninfo"))
    assert "port=5001" in primary
    assert "application_name=b" in primary


def without_client(monkeypatch: pytest.MonkeyPatch, name: str, *parts: str) -> Any:
    """Return the module of a peer with stand-ins for its client, which need not be installed."""
    for each in (name, *(f"{name}.{part}" for part in parts)):
        monkeypatch.setitem(sys.modules, each, MagicMock())
    path = f"benchmarks.peers.{name}"
    monkeypatch.delitem(sys.modules, path, raising=False)
    found = import_module(path)
    monkeypatch.delitem(sys.modules, path)
    return found


def test_a_server_of_redis_flushes_always_and_replicas_know_the_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis = without_client(monkeypatch, "redis", "asyncio", "exceptions")
    master = redis.configuration(tmp_path, [6001, 6002, 6003], 0).splitlines()
    assert {"appendonly yes", "appendfsync always", "port 6001"} <= {*master}
    assert not any(line.startswith("replicaof") for line in master)
    replica = redis.configuration(tmp_path, [6001, 6002, 6003], 2).splitlines()
    assert {"appendfsync always", "port 6003", "replicaof 127.0.0.1 6001"} <= {*replica}


def test_a_member_of_etcd_knows_all(tmp_path: Path) -> None:
    options = etcd.options(tmp_path, [1, 2, 3], [4, 5, 6], 1)
    assert "--listen-client-urls=http://127.0.0.1:2" in options
    assert "--listen-peer-urls=http://127.0.0.1:5" in options
    cluster = "etcd-0=http://127.0.0.1:4,etcd-1=http://127.0.0.1:5,etcd-2=http://127.0.0.1:6"
    assert f"--initial-cluster={cluster}" in options


def test_a_server_of_nats_has_routes_to_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = ("aio", "aio.client", "errors", "js", "js.api")
    nats = without_client(monkeypatch, "nats", *clients)
    found = json.loads(nats.configuration(tmp_path, [1, 2, 3], [4, 5, 6], 2))
    assert found["listen"] == "127.0.0.1:3"
    assert found["cluster"]["routes"] == [f"nats://127.0.0.1:{port}" for port in (4, 5, 6)]
    assert found["jetstream"]["store_dir"] == str(tmp_path)
    assert "not synced" in nats.Nats.name


# --- messages of etcd -----------------------------------------------------------------------------


def test_a_put_request_is_encoded_as_protocol_buffers_say() -> None:
    assert etcd_messages.put_request(b"k", b"v" * 200) == (
        b"\x0a\x01k" + b"\x12\xc8\x01" + b"v" * 200
    )


def test_a_range_request_has_both_ends_and_a_limit() -> None:
    assert etcd_messages.range_request(b"a", b"b", 300) == b"\x0a\x01a\x12\x01b\x18\xac\x02"


def test_pairs_of_a_range_response() -> None:
    first = b"\x0a\x01a\x10\x05\x18\x96\x01\x20\x01\x2a\x02xy"
    empty = b"\x0a\x01b\x10\x06"
    message = b"\x0a\x02\x08\x07" + b"".join(
        b"\x12" + bytes([len(each)]) + each for each in (first, empty)
    )
    assert etcd_messages.pairs(message + b"\x20\x02") == [(b"a", b"xy"), (b"b", b"")]


@pytest.mark.parametrize(("leader", "leads"), [(7, True), (8, False), (0, False)])
def test_the_leader_answers_with_its_own_id(leader: int, leads: bool) -> None:
    status = b"\x0a\x04\x08\x01\x10\x07\x12\x013" + b"\x20" + bytes([leader])
    assert etcd_messages.is_leader(status) is leads


def test_a_field_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError, match="field 1 has type 5; expected 0 or 2"):
        list(etcd_messages.fields(b"\x0d\x00\x00\x00\x00"))


# --- programs and processes -----------------------------------------------------------------------


def test_unpacked_programs_are_found_with_their_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "UNPACKED", tmp_path)
    place = tmp_path / "a-package" / "usr" / "no" / "such" / "place"
    libraries = tmp_path / "a-package" / "usr" / "lib" / "x-linux-gnu"
    place.mkdir(parents=True)
    libraries.mkdir(parents=True)
    (place / "a-server").touch(mode=0o755)
    found = programs.find(WANTED)
    assert found.path("a-server") == str(place / "a-server")
    assert found.environment()["LD_LIBRARY_PATH"] == str(libraries)


def test_missing_programs_name_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "UNPACKED", tmp_path / "peers")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="install the packages a-package") as caught:
        programs.find(WANTED)
    assert "a-server not found" in str(caught.value)
    assert not list((tmp_path / "peers").iterdir()), "a part of the packages stays nowhere"


@pytest.mark.real_time
async def test_a_server_that_ends_says_why_and_all_processes_end(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    sleeper = processes.begin("sleeper", ["sleep", "60"], os.environ)
    failing = processes.begin("failing", ["sh", "-c", "echo no disk; exit 3"], os.environ)
    with pytest.raises(UnavailableError, match="it said last: no disk"):
        await processes.wait_for("failing", 1, failing)
    with pytest.raises(UnavailableError, match="exit code 4"):
        await processes.finish("helper", ["sh", "-c", "exit 4"], os.environ)
    await processes.end()
    await processes.end()
    assert sleeper.returncode
    assert failing.returncode == 3


def test_children_stand_after_their_parent() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        found = with_children([os.getpid()])
        assert found[0] == os.getpid()
        assert child.pid in found
    finally:
        child.kill()
        child.wait()


# --- peers that are left out ----------------------------------------------------------------------


class Fake(LogPeer):
    """A peer without servers."""

    name = "Fake"
    failures = (LookupError,)

    def __init__(self, directory: Path, *, fails: bool = False, lost: int = 0) -> None:
        super().__init__(directory)
        self.fails = fails
        self.lost = lost
        self.stops = 0

    async def launch(self) -> None:
        if self.fails:
            raise LookupError("no leader\nanywhere")

    async def create(self, log: str) -> None:
        pass

    async def append_to(self, log: str, workload: Workload, seconds: float) -> Took:
        return Took(100, 1.0, 0.1, 1.0, 2.0)

    async def read_all(self, log: str, entries: int) -> int:
        return entries - self.lost

    async def disconnect(self) -> None:
        self.stops += 1


async def test_a_peer_that_does_not_start_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = Fake(tmp_path / "good"), Fake(tmp_path / "bad", fails=True)
    syncs = Figures("a sync", 100, 4096, 0.1, 1.0, 2.0, 5.0)

    async def limits(advance: Callable[[str], None]) -> RawLimits:
        advance("a sync")
        return RawLimits(syncs, syncs, syncs, syncs, syncs)

    rounds = Rounds([bad, good], [LOG], 0.1, limits)
    await rounds.run(2)
    assert [run.peer for run in rounds.results.runs] == ["Fake", "Fake"]
    assert {(each.round, each.per_second) for each in rounds.results.limits} == {
        (0, 1000.0),
        (1, 1000.0),
    }
    assert good.stops == 1
    assert bad.stops >= 1
    assert "Fake is left out: it does not start" in capsys.readouterr().err


async def test_a_reading_with_fewer_entries_fails(tmp_path: Path) -> None:
    peer = Fake(tmp_path / "peer", lost=1)
    await peer.start()
    await peer.run(Workload("log", *READ_FROM), 0.1)
    with pytest.raises(PeerError, match="99 entries were read, of 100"):
        await peer.run(Workload("log", 1024, 0), 0.1)


def test_a_peer_without_its_client_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "benchmarks.peers.redis", raising=False)
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    monkeypatch.setitem(sys.modules, "redis", None)
    made, lines = others.make_others(["Redis", "Kafka"], tmp_path)
    assert made == []
    (line,) = lines
    assert line.startswith("Redis is left out: its client needs the module redis")
    assert others.REQUIREMENTS in line


# --- appends and tables ---------------------------------------------------------------------------


async def test_appends_keep_the_window_full() -> None:
    waiting: list[asyncio.Future[None]] = []
    most = 0

    async def submit() -> asyncio.Future[None]:
        nonlocal most
        made: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(made)
        most = max(most, len(waiting))
        asyncio.get_running_loop().call_later(0.001, lambda: waiting.pop(0).set_result(None))
        return made

    took = await append(submit, 1_000, 0.02, batch=250)
    assert most == 4
    assert took.entries % 250 == 0
    assert took.entries >= 1_000


async def test_a_failed_append_cancels_the_others() -> None:
    made: list[asyncio.Future[None]] = []

    async def submit() -> asyncio.Future[None]:
        made.append(asyncio.get_running_loop().create_future())
        if len(made) == 3:
            made[0].set_exception(LookupError("no leader"))
        return made[-1]

    with pytest.raises(LookupError):
        await append(submit, 3, 10.0)
    assert [each.cancelled() for each in made] == [False, True, True]


def test_these_four_have_a_table_of_their_own() -> None:
    names = ("quire", "etcd", "Kafka synced", "NATS (not synced)", "PostgreSQL")
    runs = [
        Run(0, name, "log", LOG.name, rate, 0.5, 2.0, 10.0, 20.0, 100.0, 6.0, 300.0)
        for name, rate in zip(names, (1000.0, 100.0, 500.0, 2000.0, 800.0), strict=True)
    ]
    heads = [line for line in report.tables(Results(runs), [LOG]).splitlines() if "per sec" in line]
    assert [head.split(" | ")[1:-3] for head in heads[1:]] == [
        ["quire", "PostgreSQL", "etcd", "NATS (not synced)"]
    ]
    assert "Kafka synced" in heads[0]
    text = report.tables(Results(runs), [LOG])
    assert f"| {LOG.name} | 1,000 | 800 | 100 | 2,000 | 1.25 | 10.00" in text
    assert "0.50 / 2.0 · 10.0 + 20.0 · – · 100 · 300" in text, "Linux counts too much"
    assert "0.50 / 2.0 · 10.0 + 20.0 · 6.0 · 100 · 300" in text
