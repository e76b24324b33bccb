"""The dice players on a real ZooKeeper, with sessions of two seconds.

What `make demo` plays on the embedded store, here as a test: the leader is killed, the next one is
stopped past its lease and woken, a bookie is lost, a player comes back without memory. Then once
more by hand, as it were: a leader at a terminal gets Ctrl-Z, and later `fg`.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from pathlib import Path

import quire
from quire.cluster import LocalCluster
from tests.support.terminal import CTRL_C, CTRL_Z, terminal
from tutorial.demo import BOOKIES, compare, curtain, perform, read_log
from tutorial.dice import SESSION_SECONDS
from tutorial.stage import Roll, Stage, State

DEADLINE_SECONDS = 90.0
LINE = re.compile(r"(\d+\.\d+\.\d+)  Value = (\d), epoch = (\d+), (.+)")


def rolls_of(lines: list[str]) -> list[tuple[Roll, str]]:
    """Return the rolls among a terminal's lines, each with its label."""
    matches = [match for line in lines if (match := LINE.search(line))]
    return [
        (Roll(quire.Position.parse(match[1]), int(match[2]), int(match[3])), match[4])
        for match in matches
    ]


def test_one_history_whatever_happens(tmp_path: Path) -> None:
    assert SESSION_SECONDS == 2.0

    async def main() -> None:
        stage = Stage(["alice", "bob", "carol"])
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            LocalCluster(tmp_path, BOOKIES, zookeeper=1) as cluster,
        ):
            try:
                findings = await perform(stage, cluster)
                await curtain(stage)
                log = await read_log(cluster.store_uri)
            finally:
                await stage.end()
        wrong = [each.claim for each in findings + compare(stage.players, log) if not each.holds]
        assert wrong == []

    asyncio.run(main())


def test_ctrl_z_and_fg(tmp_path: Path) -> None:
    async def main() -> None:
        stage = Stage(["bob"])
        (bob,) = stage.players
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            LocalCluster(tmp_path, 3, zookeeper=1) as cluster,
            terminal() as screen,
        ):
            store = cluster.store_uri
            screen.type(
                f"{sys.executable} -m tutorial.dice --store {store} --name alice --interval 0.25\n"
            )
            await screen.until(", leading")
            await bob.start(store, 0.25)
            try:
                await stage.until("bob to follow", lambda: len(bob.rolls) >= 3)
                screen.type(CTRL_Z)
                stopped = await screen.until("Stopped")
                await stage.until("bob to lead", lambda: bob.leads)
                await stage.until_rolls(4)
                screen.type("fg\n")
                woken = await screen.until(", following", stopped)
                await stage.until_rolls(2)
                await bob.end(signal.SIGTERM, State.STOPPED)
                end = await screen.until(", leading", woken)
                screen.type(CTRL_C)
                screen.type('echo the "end"\n')
                await screen.until("the end", end)
            finally:
                await stage.end()
            log = await read_log(store)
        shown = rolls_of(screen.lines)
        assert [roll for roll, _ in shown] == log[: len(shown)]
        assert bob.rolls == log[: len(bob.rolls)]
        led = [roll.epoch for roll, label in shown if label == "leading"]
        assert sorted(set(led)) == [1, 3]  # 2 was bob's

    asyncio.run(main())
