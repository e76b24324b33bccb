"""A repair on a full disk writes into the bookie's reserve, or says how much to free and loses
nothing.
"""

from __future__ import annotations

import random

import pytest

from quire.errors import ConfigurationError, CorruptStorageError
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER as CLUSTER_PATH
from quire.metastore.layout import cookie_path
from quire.metastore.memory import MemoryStore
from quire.repair.directory import Repaired, repair_disk
from quire.storage.entries.reserve import RESERVE
from quire.storage.identity.cookie import read_cookie
from quire.storage.identity.identity import _encode_twin
from tests.storage.salvage_scene import entry_logs, loaded, remove
from tests.storage.scene import BOOKIE, CLUSTER, SMALL, Scene, drive

RESERVES = (RESERVE, f"entries/{RESERVE}")


async def damaged() -> Scene:
    """Return a stopped bookie that lost an entry log."""
    scene = await loaded()
    remove(scene, entry_logs(scene)[0])
    with pytest.raises(CorruptStorageError):
        await scene.start()
    scene.disk.kill()
    return scene


async def repaired(scene: Scene) -> Repaired:
    mount = scene.disk.mount()
    store = MemoryStore()
    cookie = await read_cookie(mount)
    assert cookie is not None
    await store.create(CLUSTER_PATH, Cluster(CLUSTER).encode())
    await store.create(cookie_path(BOOKIE), _encode_twin(cookie))
    try:
        return await repair_disk(mount, store, random.Random(1), options=SMALL)
    finally:
        scene.disk.kill()
        await store.close()


async def held(scene: Scene) -> dict[int, bytes]:
    """Start the bookie, which must be whole enough for that, and return ledger 7."""
    await scene.start()
    entries = await scene.entries(7)
    await scene.close()
    return entries


async def expected() -> dict[int, bytes]:
    """Return what a repair with space keeps."""
    scene = await damaged()
    await repaired(scene)
    entries = await held(scene)
    assert len(entries) >= 10
    return entries


def test_a_full_disk_is_repaired_in_the_space_of_the_reserve() -> None:
    async def main() -> None:
        scene = await damaged()
        scene.disk.capacity_bytes = scene.disk.used_bytes
        await repaired(scene)
        assert await held(scene) == await expected()

    drive(main())


def test_a_repair_without_space_names_what_to_free_loses_nothing_and_goes_on() -> None:
    async def main() -> None:
        whole, left = await expected(), 0
        reasons: list[str] = []
        while True:
            scene = await damaged()
            for path in RESERVES:  # others have taken its space
                remove(scene, path)
            before = {path for path in scene.disk.files() if not path.endswith(".spare")}
            scene.disk.capacity_bytes = scene.disk.used_bytes + left
            try:
                await repaired(scene)
                break
            except ConfigurationError as error:
                reasons.append(str(error))
            left += 512
            assert before <= set(scene.disk.files())
            with pytest.raises(CorruptStorageError):
                await scene.start()
            scene.disk.kill()
            scene.disk.capacity_bytes = 1 << 30
            await repaired(scene)
            assert await held(scene) == whole, left
        assert len(reasons) > 8
        assert all("is full" in each and "free that much" in each for each in reasons)
        assert await held(scene) == whole

    drive(main())


def test_another_error_of_the_disk_is_not_taken_for_a_lack_of_space() -> None:
    async def main() -> None:
        scene = await damaged()
        scene.disk.fail_sync("")
        with pytest.raises(OSError, match="injected sync error"):
            await repaired(scene)
        await repaired(scene)
        assert await held(scene) == await expected()

    drive(main())
