"""A bookie whose machine dies while it restarts can be started again, wherever that happened.

Found by simulation: the segment begun by a restart did not name the one before it, so a second
crash before the checkpoint left a journal that looked broken: the bookie never started again.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from quire.entry import DigestKind, Sealer
from quire.run import pack_run, split_run
from quire.storage.identity.cookie import format_bookie
from quire.storage.journal.options import StorageOptions
from quire.storage.node import BookieNode
from tests.sim.disk import Cut, SimDisk

OPTIONS = StorageOptions(segment_bytes=32 * 1024, write_cache_bytes=4096, memory_bytes_max=65536)
SEALER = Sealer(7, DigestKind.CRC32C, b"")
CHANGES_OF_A_RESTART = 40
"""More than a restart makes, so that the last ones end before the crash."""


async def start(disk: SimDisk) -> BookieNode:
    def die(error: BaseException) -> None:
        raise AssertionError("the bookie gave up") from error

    mount = disk.mount()
    await format_bookie(mount, "b0", "cluster")
    return await BookieNode.open(
        mount, "b0", "cluster", rng=random.Random(1), on_fatal=die, options=OPTIONS
    )


async def add(node: BookieNode, *entries: int) -> None:
    frames = [SEALER.seal(entry, -1, 100, bytes(100)) for entry in entries]
    await node.add(7, SEALER.access_key, pack_run(frames))


@pytest.mark.parametrize("cut", list(Cut))
@pytest.mark.slow
def test_a_second_crash_at_every_change_of_a_restart(cut: Cut) -> None:
    async def crash_at(change: int) -> None:
        disk = SimDisk(random.Random(change))
        await add(await start(disk), 0, 1, 2)
        disk.power_cut(cut)
        disk.halt_at(change)
        restart = asyncio.create_task(start(disk))
        halted = asyncio.create_task(disk.halted.wait())
        await asyncio.wait([restart, halted], return_when=asyncio.FIRST_COMPLETED)
        for task in (restart, halted):
            task.cancel()
        await asyncio.gather(restart, halted, return_exceptions=True)
        disk.power_cut(cut)
        node = await start(disk)
        await add(node, 3)
        run = await node.read(7, 0, 9)
        assert [entry for entry, _ in split_run(run)] == [0, 1, 2, 3]
        await node.close()

    async def main() -> None:
        for change in range(1, CHANGES_OF_A_RESTART):
            await crash_at(change)

    asyncio.run(main())
