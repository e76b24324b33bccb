"""A bookie that lost something: how the tests of a salvage bring it about."""

from __future__ import annotations

import random

from quire.storage.entries.doubtful import Horizon
from quire.storage.offline.salvage import Doubt, Salvage, salvage
from tests.storage.scene import BOOKIE, KEY, SMALL, Scene, run_of

PAYLOAD = bytes(500)
BELOW = 100


async def loaded() -> Scene:
    """Return a killed bookie with ledger 7 in two entry logs and the journal, 8 fenced, 9 in the
    journal only.
    """
    scene = Scene()
    for first in (0, 10, 20):
        node = await scene.start()
        for entry in range(first, first + 10):
            await node.add(7, KEY, run_of(7, entry, payload=PAYLOAD))
        if first == 0:
            await node.read_tail(8, fence_key=KEY)
        if first < 20:
            await scene.close()
    await node.add(9, KEY, run_of(9, 0))
    await scene.kill()
    return scene


async def salvaged(
    scene: Scene, *doubts: Doubt, below: int = BELOW, clean: tuple[tuple[int, int], ...] = ()
) -> Salvage:
    horizon = Horizon(below, clean)
    mount = scene.disk.mount()
    rng = random.Random(1)
    try:
        return await salvage(mount, BOOKIE, doubts, horizon, rng=rng, options=SMALL)
    finally:
        await mount.close()


def entry_logs(scene: Scene) -> list[str]:
    return [path for path in sorted(scene.disk.files()) if path.endswith(".entries")]


def remove(scene: Scene, path: str) -> None:
    directory, _, name = path.rpartition("/")
    for names in (
        scene.disk.directories[directory].names,
        scene.disk.directories[directory].durable,
    ):
        names.pop(name, None)


def cut(scene: Scene, path: str, size: int) -> None:
    inode = scene.disk.inode(path)
    del inode.content[size:]
    del inode.durable[size:]
