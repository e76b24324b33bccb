"""The storage node on a real directory: what the simulated disk cannot show, threads and system
calls.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from quire.run import split_run
from quire.storage.disk.local import LocalDisk
from quire.storage.identity.cookie import format_bookie
from quire.storage.node import BookieNode
from tests.storage.scene import BOOKIE, CLUSTER, KEY, SMALL, drive, run_of, sealed


def test_entries_survive_stops_of_both_kinds_through_flushes(tmp_path: Path) -> None:
    async def life(number: int) -> None:
        disk = LocalDisk(tmp_path)
        await format_bookie(disk, BOOKIE, CLUSTER)
        fatal: list[BaseException] = []
        node = await BookieNode.open(
            disk,
            BOOKIE,
            CLUSTER,
            rng=random.Random(number),
            on_fatal=fatal.append,
            options=SMALL,
        )
        if number:
            held = dict(split_run(await node.read(7, 0, 1 << 40)))
            size = 100 * number
            assert held == {entry: sealed(7, entry, bytes(500)) for entry in range(size)}
        ids = range(100 * number, 100 * number + 100)
        await asyncio.gather(
            *(node.add(7, KEY, run_of(7, entry, payload=bytes(500))) for entry in ids)
        )
        await (node.abort() if number % 2 else node.close())
        assert fatal == []
        await disk.close()

    async def main() -> None:
        for number in range(4):
            await life(number)
        assert len(list((tmp_path / "entries").glob("*.entries"))) > 3

    drive(main())
