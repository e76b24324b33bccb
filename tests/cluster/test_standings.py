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


def wish(cluster: RunningCluster, *arguments: str, code: int = 0) -> Finished:
    done = quire("bookie", *arguments, store=cluster.store)
    assert done.code == code, done.err
    return done


def create(cluster: RunningCluster, ensemble: int) -> str:
    done = quire("ledger", "create", "x", "--ensemble", str(ensemble), store=cluster.store)
    assert done.code == 0, done.err
    return done.out.strip()


def test_a_bookie_is_away_and_comes_back(cluster: RunningCluster) -> None:
    victim = cluster.bookies[0]["bookie"]
    away = ("away", victim[:8], "--for", "1h", "--reason", "new fan")
    wish(cluster, *away, "--dry-run")
    assert states(cluster)[victim] == "up", "a dry run changes nothing"
    (said,) = wish(cluster, *away, "--json").json
    assert (said["wish"], said["obeyed"], said["ledgers"]) == ("away", True, 0)
    found = listed(cluster)[victim]
    assert (found["state"], found["reason"]) == ("away", "new fan")
    health, codes, done = healthy(cluster)
    assert (health, codes) == ("warning", {"away", "no-spare"})
    assert "new fan" in done.out
    for _ in range(5):
        shown = quire("ledger", "show", create(cluster, 3), "--json", store=cluster.store)
        assert victim not in shown.out

    os.kill(cluster.bookies[0]["pid"], signal.SIGKILL)
    wait_until_unregistered(cluster, victim)
    assert states(cluster, "--lost-after", "0s")[victim] == "away", "it is allowed to be missing"
    wish(cluster, "back", victim)
    assert states(cluster)[victim] == "silent"


def test_a_bookie_is_drained_recommissioned_and_forgotten(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    victim = cluster.bookies[0]["bookie"]
    everywhere = create(cluster, 4)
    refused = wish(cluster, "drain", victim, code=7)
    assert f"ledgers {everywhere} cannot move: " in refused.err
    assert refused.err.count("\n") == 1
    wish(cluster, "drain", victim, "--anyway")
    assert states(cluster)[victim] == "draining"
    assert "is draining" in wish(cluster, "away", victim, "--for", "1h", code=7).err
    wish(cluster, "recommission", victim)
    while states(cluster)[victim] != "up":  # within the test's time limit
        assert states(cluster)[victim] in {"draining", "read-only", "up"}
    assert "it is registered: stop it first" in wish(cluster, "forget", victim, code=7).err

    os.kill(cluster.bookies[0]["pid"], signal.SIGKILL)
    wait_until_unregistered(cluster, victim)
    assert f"ledgers {everywhere} name it" in wish(cluster, "forget", victim, code=7).err
    assert quire("ledger", "delete", everywhere, "--yes", store=cluster.store).code == 0
    wish(cluster, "forget", victim, "--dry-run")
    assert states(cluster)[victim] == "silent"
    wish(cluster, "forget", victim)
    assert states(cluster)[victim] == "gone"
    assert healthy(cluster)[1] == set()
    served = quire("bookie", "serve", str(cluster.directory / "bookie-0"), store=cluster.store)
    assert served.code == 9, "its identity was given up"


def test_a_wish_that_makes_no_sense_is_refused_by_name(cluster: RunningCluster) -> None:
    victim = cluster.bookies[0]["bookie"]
    assert "is not known" in wish(cluster, "back", "nowhere", code=3).err
    assert "pass --yes" in wish(cluster, "away", victim, "--for", "3d", code=2).err
    assert "ends at once" in wish(cluster, "away", victim, "--for", "0", code=2).err
    assert "Missing option '--for'" in wish(cluster, "away", victim, code=2).err
    assert set(states(cluster).values()) == {"up"}
