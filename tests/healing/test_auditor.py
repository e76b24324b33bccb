"""Elected auditors: one audits, another takes over, and failures of the store pass."""

from __future__ import annotations

import asyncio
import random

from quire.bookie import BookieAddress
from quire.errors import StoreUnavailableError
from quire.healing.auditor import Auditor, auditing
from quire.healing.summary import State
from quire.ledger.roster import LinkedBookie
from quire.metastore.memory import MemoryStore
from tests.healing.auditing import Scene
from tests.support.memory_cluster import MemoryCluster
from tests.support.virtual import virtually

DELAY = 60.0


class Flaky(MemoryStore):
    """A store that cannot be reached while `is_cut`."""

    is_cut = False

    async def _turn(self) -> None:
        await super()._turn()
        if self.is_cut:
            raise StoreUnavailableError("memory:", "cut by the test")


def auditor(made: Scene, store: MemoryStore, name: str) -> Auditor:
    def connect(address: BookieAddress) -> LinkedBookie:
        return made.cluster.bookies[address.bookie]

    loop = asyncio.get_running_loop()
    return Auditor(
        store, name, delay=DELAY, clock=loop.time, rng=random.Random(name), connect=connect
    )


async def copying(made: Scene) -> None:
    while True:
        await made.copy()
        await asyncio.sleep(1.0)


def test_one_audits_and_another_takes_over() -> None:
    async def main() -> None:
        async with MemoryCluster(6) as cluster:
            made = Scene(cluster)
            await made.fill(12)
            working = asyncio.create_task(copying(made))
            auditors = [auditor(made, cluster.store, name) for name in ("anna", "bert", "cleo")]
            for each in auditors:
                each.start()
            await asyncio.sleep(30.0)
            first = await made.summary()
            assert (first.state, first.ledgers, first.indexed) == (State.IDLE, 12, 12)
            await made.lose("b0")
            await asyncio.sleep(DELAY - 10.0)
            by_name = {each._name: each for each in auditors}
            await by_name.pop(first.by).close()
            await asyncio.sleep(DELAY - 20.0)
            second = await made.summary()
            assert second.by in by_name
            assert second.epoch > first.epoch
            assert second.lost == ()  # its delay began anew
            assert made.copied == 0
            await asyncio.sleep(60.0)
            assert await made.short() == []
            assert (await made.summary()).lost == ("b0",)
            for each in by_name.values():
                await each.close()
            working.cancel()

    virtually(main)


def test_a_store_out_of_reach_costs_time_and_nothing_else() -> None:
    async def main() -> None:
        async with MemoryCluster(5) as cluster:
            made = Scene(cluster)
            await made.fill(12)
            store = Flaky(cluster.store.tree)
            working = asyncio.create_task(copying(made))
            loop = asyncio.get_running_loop()
            async with auditing(
                store,
                "anna",
                delay=DELAY,
                clock=loop.time,
                rng=random.Random(1),
                connect=lambda address: cluster.bookies[address.bookie],
            ):
                await asyncio.sleep(20.0)
                store.is_cut = True
                await made.lose("b0")
                await asyncio.sleep(8 * DELAY)
                assert made.copied == 0
                store.is_cut = False
                await asyncio.sleep(3 * DELAY)
                assert await made.short() == []
                await store.close()
                await asyncio.sleep(100.0)  # it ends by itself
            working.cancel()

    virtually(main)


def test_an_operator_wakes_it() -> None:
    """A change of the switch, or a bookie that comes, is not seen only in the next round."""

    async def main() -> None:
        async with MemoryCluster(4) as cluster:
            made = Scene(cluster)
            await made.fill(4)
            one = auditor(made, cluster.store, "anna")
            one.start()
            await asyncio.sleep(15.05)
            await made.lose("b0")
            await asyncio.sleep(DELAY + 0.1)
            assert (await made.summary()).lost == ("b0",)
            await one.close()

    virtually(main)
