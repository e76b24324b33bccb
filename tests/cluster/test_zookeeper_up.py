"""A local cluster whose metadata is in ZooKeeper servers of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from quire.cluster import LocalCluster
from quire.cluster.zookeeper.ensemble import ZooKeeperEnsemble
from quire.cluster.zookeeper.local import LocalZooKeeper
from quire.connection import connect
from quire.errors import ConfigurationError, DirectoryInUseError
from quire.metastore.place import resolve_store
from tests.support.command import is_running, quire, started

WAIT_SECONDS = 60.0


def test_ctrl_c_ends_the_servers_too_and_the_next_start_finds_the_data(tmp_path: Path) -> None:
    data = tmp_path / "data"
    options = ("--bookies", "3", "--data", str(data), "--json")
    with started("cluster", "up", "--zookeeper", "3", *options) as up:
        assert up.stdout is not None
        said = json.loads(up.stdout.readline())
        pids = [each["pid"] for each in (*said["bookies"], *said["zookeeper"])]
        assert len(pids) == 6
        assert all(map(is_running, pids))
        # The directory names the cluster, as it does with SQLite.
        assert quire("log", "append", "greetings", "hello", store=str(data)).code == 0
        status = quire("cluster", "status", store=str(data))
        assert sorted(word for word in status.out.split() if word.endswith("er,")) == [
            "follower,",
            "follower,",
            "leader,",
        ]
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=WAIT_SECONDS)
        assert up.returncode == 130
        assert not any(map(is_running, pids))
    with started("cluster", "up", *options) as again:
        assert again.stdout is not None
        resumed = json.loads(again.stdout.readline())
        assert len(resumed["zookeeper"]) == 3
        assert quire("log", "read", "greetings", store=resumed["store"]).out == "hello\n"
        again.send_signal(signal.SIGINT)
        again.communicate(timeout=WAIT_SECONDS)


def test_one_server_is_enough_and_people_are_told(tmp_path: Path) -> None:
    options = ("--bookies", "1", "--data", str(tmp_path))
    with started("cluster", "up", "--zookeeper", *options) as up:
        assert up.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("Ctrl-C"):
            lines.append(up.stdout.readline())
            assert lines[-1], lines
        assert any("ZooKeeper" in line for line in lines)
        status = quire("cluster", "status", "--json", store=str(tmp_path))
        assert [each["mode"] for each in status.json[0]["zookeeper"]] == ["standalone"]
        up.send_signal(signal.SIGTERM)
        assert up.wait(WAIT_SECONDS) == 130


def test_a_directory_decides_once(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "metadata.db").touch()
    with pytest.raises(ConfigurationError, match=r"metadata\.db"):
        LocalCluster(tmp_path / "file", zookeeper=1)
    for number in (1, 2, 3):
        (tmp_path / "three" / f"zookeeper-{number}").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="has 3 ZooKeeper servers, not 1"):
        LocalCluster(tmp_path / "three", zookeeper=1)
    assert LocalCluster(tmp_path / "three").zookeeper is not None
    with pytest.raises(ConfigurationError, match="not 2"):
        ZooKeeperEnsemble(tmp_path / "two", 2)
    with pytest.raises(ConfigurationError, match="one metadata store"):
        LocalCluster(tmp_path / "other", store="memory:", zookeeper=1)
    with pytest.raises(ConfigurationError, match="lacks the jars"):
        LocalCluster(tmp_path / "other", zookeeper=1, zookeeper_jars=tmp_path)


def test_a_second_cluster_in_the_same_directory_leaves_the_first_as_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(WAIT_SECONDS), LocalCluster(tmp_path, 1, zookeeper=3) as cluster:
            with pytest.raises(DirectoryInUseError):
                await LocalCluster(tmp_path, 1).start()
            assert resolve_store(str(tmp_path)) == cluster.store_uri
            async with connect(str(tmp_path)) as client:
                assert len(client.bookies()) == 1

    asyncio.run(main())


def test_a_server_that_dies_is_reported_and_one_of_three_is_not_missed(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(WAIT_SECONDS),
            LocalCluster(tmp_path, 1, zookeeper=3) as cluster,
            connect(cluster.store_uri) as client,
        ):
            assert cluster.zookeeper is not None
            assert resolve_store(str(tmp_path)) == cluster.store_uri
            server = cluster.zookeeper.ensemble.servers[1]
            assert server.pid is not None
            os.kill(server.pid, signal.SIGKILL)
            death = await cluster.next_death()
            assert death.who == "ZooKeeper server 2"
            assert await client.list_logs() == []
            await cluster.zookeeper.restart(2)
            cluster.zookeeper.kill(1)
            cluster.zookeeper.pause(3)
            cluster.zookeeper.resume(3)
            assert await client.list_ledgers() == []
            await cluster.zookeeper.restart(1)

    asyncio.run(main())


def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        local = LocalZooKeeper(tmp_path, 1, None, lambda *_: None)
        starting = asyncio.ensure_future(local.start())
        server = local.ensemble.servers[0]
        while server.pid is None:  # noqa: ASYNC110 - a thread starts it
            await asyncio.sleep(0.01)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await local.stop()
        assert starting.cancelled()
        assert server.pid is None

    asyncio.run(main())


@pytest.mark.parametrize("how_far", ["bookies", "servers"])
def test_a_stop_that_is_cut_short_ends_the_servers_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how_far: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def main() -> None:
        cluster = LocalCluster(None, 1, zookeeper=1)
        await cluster.start()
        assert cluster.zookeeper is not None
        server = cluster.zookeeper.ensemble.servers[0]
        if how_far == "servers":
            server.pause()  # it ends when it is killed, and not before
        stopping = asyncio.create_task(cluster.stop())
        bookie = cluster._processes[0]
        while how_far == "servers" and bookie.exit_code is None:  # noqa: ASYNC110 - a process
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)
        assert stopping.cancelled()
        assert (server.pid, bookie.exit_code is None) == (None, False)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_dies_again_after_the_next_start_is_reported_again(tmp_path: Path) -> None:
    async def main() -> None:
        deaths: asyncio.Queue[int] = asyncio.Queue()
        local = LocalZooKeeper(tmp_path, 1, None, lambda number, _: deaths.put_nowait(number))
        async with asyncio.timeout(WAIT_SECONDS):
            for _ in range(2):
                await local.start()
                local.ensemble.servers[0].interrupt()
                assert await deaths.get() == 1
                await local.stop()

    asyncio.run(main())


PARENT = """
import sys, time
from pathlib import Path
from quire.cluster.zookeeper.ensemble import ZooKeeperEnsemble

ensemble = ZooKeeperEnsemble(Path(sys.argv[1]), 1)
ensemble.start()
print(ensemble.servers[0].pid, flush=True)
time.sleep(600)
"""


def test_no_server_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()

    async def gone() -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while is_running(pid):  # noqa: ASYNC110 - not our child
                await asyncio.sleep(0.05)

    asyncio.run(gone())
