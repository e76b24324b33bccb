"""The rules of the dice game hold for rolls that go through gateways: real processes and signals.

A player rolls through a gateway, over HTTP. Followers read through gateways, too. Gateways and
bookies are paused and killed meanwhile. The numbers in the names of the steps are those of
tests/tutorial/test_dice.py.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from itertools import cycle
from pathlib import Path
from typing import Final, TypeAlias

import httpx
import pytest

from quire.cluster import LocalCluster
from tests.gateway.process import Addresses, GatewayProcess

pytestmark = [pytest.mark.real_time, pytest.mark.campaign, pytest.mark.timeout(300)]

LOG: Final = "dice"
ROLL_SECONDS: Final = 0.05
ANSWER_SECONDS: Final = 3.0
"""A gateway that is paused answers nothing: then another is asked."""
STALL_SECONDS: Final = 4.0
"""Longer than the player waits for an answer: it repeats its roll at the other gateway."""
STEP_SECONDS: Final = 60.0
ELSEWHERE: Final = 307

More: TypeAlias = Callable[[int, str], Awaitable[None]]
"""Waits for so many rolls, at the player and at each follower; the step's name is for an error."""


class Gateways:
    """Two gateways, and the one that answered the last roll."""

    def __init__(self, store: str, directory: Path) -> None:
        self.each = [GatewayProcess(store, directory / f"gateway-{n}.log") for n in range(2)]
        self.urls: list[str] = []
        self.owner = 0

    async def start(self) -> None:
        found = [await asyncio.to_thread(gateway.start) for gateway in self.each]
        self.urls = [each.http for each in found]
        for gateway, addresses in zip(self.each, found, strict=True):
            gateway.keep(_ports(addresses))

    def end(self) -> None:
        for gateway in self.each:
            gateway.end()


def _ports(addresses: Addresses) -> tuple[int, int, int]:
    http, kafka, grpc = (int(each.rpartition(":")[2].rstrip("/")) for each in addresses)
    return http, kafka, grpc


class Player:
    """Rolls, each with its number, and says a roll once it is acknowledged."""

    def __init__(self, gateways: Gateways) -> None:
        self._gateways = gateways
        self.said: dict[int, str] = {}
        """The acknowledged rolls by offset."""

    async def play(self) -> None:
        sequence = 0
        async with httpx.AsyncClient(timeout=ANSWER_SECONDS) as client:
            while True:
                sequence += 1
                roll = f"{sequence}: {sequence * 7 % 6 + 1}"
                offset = await self._roll(client, roll, sequence)
                assert offset not in self.said
                self.said[offset] = roll
                await asyncio.sleep(ROLL_SECONDS)

    async def _roll(self, client: httpx.AsyncClient, roll: str, sequence: int) -> int:
        body = {"records": [roll], "producer": {"id": "player", "sequence": sequence}}
        gateways = self._gateways
        while True:
            url = gateways.urls[gateways.owner]
            try:
                answer = await client.post(f"{url}/v1/logs/{LOG}/records", json=body)
            except httpx.HTTPError:
                gateways.owner = 1 - gateways.owner
                await asyncio.sleep(ROLL_SECONDS)
                continue
            if answer.status_code == 201:
                offset: int = answer.json()["records"][0]["offset"]
                return offset
            assert answer.status_code in (ELSEWHERE, 429, 503, 504), answer.text
            gateways.owner = 1 - gateways.owner
            await asyncio.sleep(ROLL_SECONDS)


class Follower:
    """Shows rolls in the order of the log, through any gateway that answers."""

    def __init__(self, gateways: Gateways, first: int) -> None:
        self._gateways = gateways
        self._places = cycle((first, 1 - first))
        self.shown: list[tuple[int, str]] = []

    async def follow(self) -> None:
        start, place = "beginning", next(self._places)
        async with httpx.AsyncClient(timeout=2 * ANSWER_SECONDS) as client:
            while True:
                url = f"{self._gateways.urls[place]}/v1/logs/{LOG}/records"
                try:
                    answer = await client.get(url, params={"from": start, "wait": "3s"})
                except httpx.HTTPError:
                    answer = None
                if answer is None or answer.status_code != 200:
                    place = next(self._places)
                    await asyncio.sleep(ROLL_SECONDS)
                    continue
                found = answer.json()
                self.shown += [(each["offset"], each["value"]) for each in found["records"]]
                start = found["next"]


async def until(what: str, condition: Callable[[], bool]) -> None:
    try:
        async with asyncio.timeout(STEP_SECONDS):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {STEP_SECONDS:g} s") from None


async def test_the_game_withstands_through_gateways(tmp_path: Path) -> None:
    async with LocalCluster(directory=tmp_path / "cluster", bookies=3) as cluster:
        gateways = Gateways(cluster.store_uri, tmp_path)
        player = Player(gateways)
        followers = [Follower(gateways, 0), Follower(gateways, 1)]
        async with asyncio.TaskGroup() as tasks:
            running = list[asyncio.Task[None]]()
            try:
                await gateways.start()
                running.append(tasks.create_task(player.play()))
                running += [tasks.create_task(each.follow()) for each in followers]

                async def more(rolls: int, what: str) -> None:
                    wanted = len(player.said) + rolls
                    await until(f"{what}: the player", lambda: len(player.said) >= wanted)
                    last = max(player.said)
                    for each in followers:
                        await until(f"{what}: a follower", lambda: _end(each) > last)  # noqa: B023

                await more(5, "the beginning")
                await _two_of_three_bookies(cluster, player, more)
                await _a_paused_owner(gateways, more)
                await _a_killed_owner(gateways, more)
                await _all_end_and_begin_again(cluster, gateways, more)
                late = Follower(gateways, 1)  # 7
                followers.append(late)
                running.append(tasks.create_task(late.follow()))
                await more(5, "a follower without memory")
            finally:
                for each in running:
                    each.cancel()
                gateways.end()
    _check(player, followers)


def _end(follower: Follower) -> int:
    return follower.shown[-1][0] + 1 if follower.shown else 0


async def _two_of_three_bookies(cluster: LocalCluster, player: Player, more: More) -> None:
    """9, and 2: a roll that is not on two bookies is not said."""
    cluster.pause(0)
    await more(10, "one bookie is down")
    cluster.pause(1)
    await asyncio.sleep(0.5)  # rolls acknowledged before are still said
    before = len(player.said)
    await asyncio.sleep(STALL_SECONDS)
    assert len(player.said) <= before + 1
    cluster.resume(1)
    cluster.resume(0)
    await more(5, "both bookies are back")


async def _a_paused_owner(gateways: Gateways, more: More) -> None:
    """3 and 4: another gateway takes over, and the paused one adds nothing of its own."""
    paused = gateways.owner
    gateways.each[paused].signal(signal.SIGSTOP)
    await more(5, "the owner is paused")
    assert gateways.owner != paused
    gateways.each[paused].signal(signal.SIGCONT)
    async with httpx.AsyncClient(timeout=30, follow_redirects=True) as client:
        answer = await client.post(
            f"{gateways.urls[paused]}/v1/logs/{LOG}/records", json={"records": ["woken"]}
        )
        assert answer.status_code in (201, 429, 503, 504)
    await more(5, "the former owner is back")


async def _a_killed_owner(gateways: Gateways, more: More) -> None:
    """5 and 6."""
    killed = gateways.owner
    gateways.each[killed].end()
    await more(5, "the owner is killed")
    await asyncio.to_thread(gateways.each[killed].start)
    await more(5, "the killed gateway is back")


async def _all_end_and_begin_again(cluster: LocalCluster, gateways: Gateways, more: More) -> None:
    """10."""
    gateways.end()
    for bookie in range(3):
        cluster.kill(bookie)
    for bookie in range(3):
        await cluster.restart(bookie)
    for gateway in gateways.each:
        await asyncio.to_thread(gateway.start)
    await more(5, "all began again")


def _check(player: Player, followers: list[Follower]) -> None:
    """1: one history, without a gap; every roll that was said is in it once, in its place."""
    longest = max((each.shown for each in followers), key=len)
    for each in followers:
        assert each.shown == longest[: len(each.shown)]
    assert [offset for offset, _ in longest] == list(range(len(longest)))
    history = dict(longest)
    assert {offset: history[offset] for offset in player.said if offset in history} == {
        offset: roll for offset, roll in player.said.items() if offset < len(longest)
    }
    numbers = [int(roll.partition(":")[0]) for roll in history.values() if roll != "woken"]
    assert numbers == list(range(1, len(numbers) + 1)), "each roll once, in the player's order"
