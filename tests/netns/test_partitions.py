"""Real partitions between hosts: `make netns` (root and iproute2 are needed).

Not part of `make test`. Without the privileges these tests fail and say so; they are never skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.netns.site import BOOKIES, PLAYERS, ZOOKEEPER, Site, site
from tests.soak import Workers

DEADLINE_SECONDS = 120.0


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory: Path = tmp_path_factory.mktemp("site")
    with site(directory) as built:
        yield built


def host_of(slot: str) -> str:
    """Return the host of a player's slot, which is called TEST-HOST."""
    return slot.rpartition("-")[2]


async def more_acked(workers: Workers, slot: str, count: int) -> None:
    """Wait until a player had so many more records acknowledged."""
    _, life = workers.processes[slot]
    goal = len(life.acked) + count
    while len(life.acked) < goal:
        workers.changed.clear()
        await workers.changed.wait()


async def another_leads(workers: Workers, slot: str) -> str:
    """Wait until another player leads with a higher epoch and writes; return it."""
    epoch = workers.epoch()
    other = await workers.new_leader(epoch)
    assert other != slot
    await more_acked(workers, other, 100)
    return other


def play(here: Site, name: str, scene: object) -> None:
    async def main() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS), here.players(name) as workers:
            slot = await workers.new_leader(0)
            await more_acked(workers, slot, 100)
            assert callable(scene)
            await scene(workers, slot)

    asyncio.run(main())


@pytest.mark.parametrize("lost", ["both", "to", "from"])
def test_a_leader_cut_off_from_zookeeper_but_not_from_bookies(here: Site, lost: str) -> None:
    """Its session expires; the next leader fences it off though it reaches every bookie."""

    async def scene(workers: Workers, slot: str) -> None:
        host = host_of(slot)
        if lost in ("both", "to"):
            here.network.lose(host, [ZOOKEEPER])
        if lost in ("both", "from"):
            here.network.lose(ZOOKEEPER, [host])
        await another_leads(workers, slot)

    play(here, f"zoo-{lost}", scene)


@pytest.mark.parametrize("lost", ["both", "to", "from"])
def test_a_leader_cut_off_from_bookies_but_not_from_zookeeper(here: Site, lost: str) -> None:
    """It keeps its session and can write nothing: it has to give up by itself."""

    async def scene(workers: Workers, slot: str) -> None:
        host = host_of(slot)
        if lost in ("both", "to"):
            here.network.lose(host, BOOKIES)
        if lost in ("both", "from"):
            for bookie in BOOKIES:
                here.network.lose(bookie, [host])
        await another_leads(workers, slot)

    play(here, f"bookies-{lost}", scene)


@pytest.mark.parametrize("lost", ["to", "from"])
def test_one_way_loss_between_a_leader_and_one_bookie(here: Site, lost: str) -> None:
    """The bookie is replaced, or done without; nobody is deposed for it."""

    async def scene(workers: Workers, slot: str) -> None:
        epoch = workers.epoch()
        for bookie in BOOKIES[:2]:  # one of two is in the ensemble of three at least
            if lost == "to":
                here.network.lose(host_of(slot), [bookie])
            else:
                here.network.lose(bookie, [host_of(slot)])
            await more_acked(workers, slot, 200)
            here.network.heal()
            await more_acked(workers, slot, 200)
        assert workers.epoch() == epoch

    play(here, f"bookie-{lost}", scene)


def test_bookies_cut_off_from_zookeeper_go_on_serving(here: Site) -> None:
    """They lose their registrations and serve who knows them; healed, they register again."""

    async def scene(workers: Workers, slot: str) -> None:
        for bookie in BOOKIES:
            here.network.cut(bookie, [ZOOKEEPER])
        # Longer than a bookie's session of 6 s: their registrations are gone.
        await asyncio.sleep(10.0)
        await more_acked(workers, slot, 200)
        here.network.heal()
        # A take-over makes a new ledger: it needs bookies that are registered.
        await workers.kill(slot)
        await another_leads(workers, slot)

    play(here, "unregistered", scene)


def test_players_parted_from_each_other_notice_nothing(here: Site) -> None:
    async def scene(workers: Workers, slot: str) -> None:
        here.network.cut(PLAYERS[0], PLAYERS[1:])
        await more_acked(workers, slot, 300)

    play(here, "players", scene)
