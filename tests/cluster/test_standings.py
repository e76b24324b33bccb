"""Bookies that are killed, as an operator sees them; each step is a command of a person."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quire.errors import NoSuchNodeError
from quire.metastore import open_store
from quire.metastore.layout import bookie_path
from tests.support.command import Finished, RunningCluster, cluster_up, quire

SECONDS_MAX = 60.0
ELSEWHERE = {"room"}
"""Reasons that the machine of the test may give by itself."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with cluster_up(tmp_path / "data", bookies=4) as running:
        yield running


def listed(cluster: RunningCluster, *options: str) -> dict[str, dict[str, Any]]:
    done = quire("bookie", "list", "--all", "--json", *options, store=cluster.store)
    assert done.code == 0, done.err
    return {each["bookie"]: each for each in done.json}


def states(cluster: RunningCluster, *options: str) -> dict[str, str]:
    return {name: each["state"] for name, each in listed(cluster, *options).items()}


def healthy(cluster: RunningCluster, *options: str) -> tuple[str, set[str], Finished]:
    done = quire("cluster", "health", "--json", *options, store=cluster.store)
    (found,) = done.json
    severity = {"ok": 0, "warning": 10, "critical": 11}
    assert done.code == severity[found["health"]], done.err
    return found["health"], {each["code"] for each in found["reasons"]} - ELSEWHERE, done


def wait_until_unregistered(cluster: RunningCluster, bookie: str) -> None:
    """Return when a bookie's session is over."""

    async def main() -> None:
        store = await open_store(cluster.store)
        path = bookie_path(bookie)
        try:
            async with asyncio.timeout(SECONDS_MAX):
                while True:
                    await store.wait(path, (await store.get(path)).version)
        except NoSuchNodeError:
            pass
        finally:
            await store.close()

    asyncio.run(main())


def test_a_killed_bookie_is_silent_and_then_lost(cluster: RunningCluster) -> None:
    victim, *others = (each["bookie"] for each in cluster.bookies)
    assert set(states(cluster).values()) == {"up"}
    assert healthy(cluster)[1] == set()
    before = listed(cluster)[victim]
    os.kill(cluster.bookies[0]["pid"], signal.SIGKILL)
    wait_until_unregistered(cluster, victim)

    found = listed(cluster)[victim]
    assert (found["state"], found["answers"]) == ("silent", None)
    assert found["silent_seconds"] >= 0
    kept = ("address", "host", "version", "disks")
    assert all(found[name] for name in kept)
    assert [found[name] for name in kept[:3]] == [before[name] for name in kept[:3]]
    assert [each["path"] for each in found["disks"]] == [each["path"] for each in before["disks"]]
    health, codes, _ = healthy(cluster)
    assert (health, codes) == ("warning", {"silent", "no-spare"})
    lost = states(cluster, "--lost-after", "0s")
    assert lost == {victim: "lost", **dict.fromkeys(others, "up")}
    health, codes, _ = healthy(cluster, "--lost-after", "0s")
    assert (health, codes) == ("critical", {"lost", "no-spare"})

    said = quire("bookie", "list", "--all", store=cluster.store)
    assert f"Health: warning: bookie {victim}" in said.err
    status = quire("cluster", "status", store=cluster.store)
    assert "bookies: 3 up, 1 silent" in status.out
    assert f"health   warning: bookie {victim}" in status.out
    (fields,) = quire("cluster", "status", "--json", store=cluster.store).json
    assert (fields["health"], fields["states"]) == ("warning", {"up": 3, "silent": 1})


def test_two_killed_bookies_are_critical(cluster: RunningCluster) -> None:
    for each in cluster.bookies[:2]:
        os.kill(each["pid"], signal.SIGKILL)
    for each in cluster.bookies[:2]:
        wait_until_unregistered(cluster, each["bookie"])
    health, codes, _ = healthy(cluster)
    assert (health, codes) == ("critical", {"silent", "many-missing", "too-few-writable"})
    text = quire("cluster", "health", store=cluster.store)
    assert text.code == 11
    assert text.out.startswith("critical: bookies: 2 up, 2 silent\n")


def test_a_cluster_out_of_reach_has_no_verdict(tmp_path: Path) -> None:
    done = quire("cluster", "health", store=f"sqlite://{tmp_path}/none.db")
    assert (done.code, done.out) == (2, "")
    wrong = quire("cluster", "health", "--lost-after", "soon", store=str(tmp_path))
    assert wrong.code == 2
    assert "'soon' is not a duration" in wrong.err
