"""The simulated disk forgets exactly what it may forget."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Coroutine

import pytest

from quire.errors import DirectoryInUseError
from tests.sim.disk import SECTOR_BYTES, Cut, SimDisk, SimMount

OLD = b"o" * (8 * SECTOR_BYTES)
NEW = b"n" * (8 * SECTOR_BYTES)


def run(main: Coroutine[object, object, None]) -> None:
    asyncio.run(main)


async def prepared(disk: SimDisk) -> SimMount:
    mount = disk.mount()
    file = await mount.open("a", create=True)
    await file.write(0, [OLD], sync=True)
    await mount.sync_directory()
    return mount


def sectors(data: bytes) -> list[bytes]:
    return [data[at : at + SECTOR_BYTES] for at in range(0, len(data), SECTOR_BYTES)]


def test_a_kill_keeps_the_page_cache_and_a_cut_loses_it() -> None:
    async def main() -> None:
        disk = SimDisk(random.Random(1))
        mount = await prepared(disk)
        await (await mount.open("a")).write(0, [NEW])
        await mount.open("b", create=True)
        disk.kill()
        assert disk.files() == {"a": NEW, "b": b""}
        disk.power_cut(Cut.LOSES)
        assert disk.files() == {"a": OLD}

    run(main())


def test_synced_bytes_and_names_survive_every_cut() -> None:
    async def main() -> None:
        for seed in range(20):
            disk = SimDisk(random.Random(seed))
            mount = await prepared(disk)
            await mount.make_directory("d")
            await mount.sync_directory()
            file = await mount.open("d/b", create=True)
            await file.write(0, [NEW], sync=True)
            await mount.sync_directory("d")
            disk.power_cut()
            assert disk.files() == {"a": OLD, "d/b": NEW}

    run(main())


def test_a_mixed_cut_decides_sector_by_sector() -> None:
    async def main() -> None:
        seen: set[str] = set()
        for seed in range(20):
            disk = SimDisk(random.Random(seed))
            mount = await prepared(disk)
            await (await mount.open("a")).write(0, [NEW])
            disk.power_cut()
            for sector in sectors(disk.files()["a"]):
                seen.add({OLD[:1]: "lost", NEW[:1]: "kept"}.get(sector[:1] * 1, "garbage"))
        assert seen == {"lost", "kept", "garbage"}

    run(main())


def test_names_are_lost_independently_of_content() -> None:
    async def main() -> None:
        outcomes = set()
        for seed in range(40):
            disk = SimDisk(random.Random(seed))
            mount = await prepared(disk)
            file = await mount.open("b", create=True)
            await file.write(0, [NEW], sync=True)
            await mount.rename("b", "c")
            await mount.unlink("a")
            disk.power_cut()
            outcomes.add(tuple(sorted(disk.files())))
        assert {("a",), ("a", "b"), ("a", "c"), ("b",), ("c",), ()} <= outcomes

    run(main())


def test_a_lost_directory_takes_its_files_along() -> None:
    async def main() -> None:
        disk = SimDisk(random.Random(1))
        mount = disk.mount()
        await mount.make_directory("d")
        await (await mount.open("d/a", create=True)).write(0, [NEW], sync=True)
        await mount.sync_directory("d")
        disk.power_cut(Cut.LOSES)
        assert disk.files() == {}
        assert await disk.mount().list() == []

    run(main())


def test_the_same_seed_forgets_the_same() -> None:
    async def images(seed: int) -> dict[str, bytes]:
        disk = SimDisk(random.Random(seed))
        mount = await prepared(disk)
        await (await mount.open("a")).write(100, [NEW])
        await mount.open("b", create=True)
        disk.power_cut()
        return disk.files()

    async def main() -> None:
        assert await images(5) == await images(5)

    run(main())


def test_a_failed_sync_is_not_made_good_by_going_on() -> None:
    """A kernel reports a lost page once and calls it clean then. How much of what follows reaches
    the platter depends on the kernel, the file system and the device, so here nothing does: what a
    process writes again, and syncs without an error, is as lost as what it wrote before.
    """

    async def main() -> None:
        disk = SimDisk(random.Random(1))
        mount = await prepared(disk)
        file = await mount.open("a")
        disk.fail_sync("a")
        with pytest.raises(OSError, match="sync"):
            await file.write(0, [NEW], sync=True)
        await file.sync()
        await file.write(0, [NEW], sync=True)
        await (await mount.open("a")).write(0, [NEW], sync=True)
        assert await file.read(0, 1) == b"n"
        disk.power_cut(Cut.LOSES)
        assert disk.files() == {"a": OLD}

    run(main())


def test_a_failed_sync_of_a_directory_is_not_made_good_by_going_on() -> None:
    async def main() -> None:
        disk = SimDisk(random.Random(1))
        mount = await prepared(disk)
        await (await mount.open("b", create=True)).write(0, [NEW], sync=True)
        disk.fail_sync("")
        with pytest.raises(OSError, match="sync"):
            await mount.sync_directory()
        await mount.sync_directory()
        await mount.rename("a", "c")
        await mount.sync_directory()
        assert sorted(disk.files()) == ["b", "c"]
        disk.power_cut(Cut.LOSES)
        assert disk.files() == {"a": OLD}

    run(main())


def test_what_a_failed_sync_lost_stays_lost_and_the_next_process_begins_anew() -> None:
    async def main() -> None:
        disk = SimDisk(random.Random(1))
        mount = await prepared(disk)
        await mount.open("b", create=True)
        disk.fail_sync("")
        with pytest.raises(OSError, match="sync"):
            await mount.sync_directory()
        file = await mount.open("a")
        disk.fail_sync("a")
        with pytest.raises(OSError, match="sync"):
            await file.write(0, [NEW], sync=True)
        disk.kill()
        assert disk.files() == {"a": NEW, "b": b""}, "the page cache outlives the process"
        mount = disk.mount()
        await mount.open("c", create=True)
        await mount.sync_directory()
        file = await mount.open("a")
        await file.sync()
        await file.write(SECTOR_BYTES, [NEW[:SECTOR_BYTES]], sync=True)
        disk.power_cut(Cut.LOSES)
        kept = OLD[:SECTOR_BYTES] + NEW[:SECTOR_BYTES] + OLD[2 * SECTOR_BYTES :]
        assert disk.files() == {"a": kept, "c": b""}

    run(main())


def test_the_next_process_keeps_a_directory_that_a_failed_sync_lost() -> None:
    async def main() -> None:
        for does_change in (False, True):
            disk = SimDisk(random.Random(1))
            first = disk.mount()
            await first.make_directory("d")
            disk.fail_sync("")
            with pytest.raises(OSError, match="injected sync error"):
                await first.sync_directory()
            disk.kill()
            second = disk.mount()
            await second.make_directory("d")  # it is there, so this changes nothing
            if does_change:
                await second.open("a", create=True)
            await second.sync_directory()
            disk.power_cut(Cut.LOSES)
            assert await disk.mount().list() == (["a", "d"] if does_change else [])

    run(main())


def test_a_full_disk_refuses_growth_and_nothing_else() -> None:
    async def main() -> None:
        disk = SimDisk(random.Random(1), capacity_bytes=len(OLD) + 10)
        mount = await prepared(disk)
        file = await mount.open("a")
        await file.write(0, [NEW])
        with pytest.raises(OSError, match="space") as caught:
            await file.write(len(OLD), [bytes(11)])
        assert caught.value.errno == errno.ENOSPC
        assert file.size == len(OLD)
        await file.write(len(OLD), [bytes(10)])
        assert (await mount.space()).free_bytes == 0

    run(main())


def test_reads_can_fail_and_bytes_can_rot() -> None:
    async def main() -> None:
        disk = SimDisk(random.Random(1))
        mount = await prepared(disk)
        file = await mount.open("a")
        disk.rot("a", 3)
        assert await file.read(0, 5) == b"ooo" + bytes([ord("o") ^ 0xFF]) + b"o"
        disk.faults.read_error = "a"
        with pytest.raises(OSError, match="read"):
            await file.read(0, 1)

    run(main())


def test_a_halted_process_never_comes_back() -> None:
    async def main() -> None:
        disk = SimDisk(random.Random(1))
        mount = await prepared(disk)
        file = await mount.open("a")
        disk.halt_at(2)
        await file.write(0, [b"1"])
        second = asyncio.ensure_future(file.write(1, [b"2"], sync=True))
        await disk.halted.wait()
        third = asyncio.ensure_future(file.read(0, 1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not second.done()
        assert not third.done()
        for task in (second, third):
            task.cancel()
        await asyncio.gather(second, third, return_exceptions=True)
        assert disk.files()["a"][:2] == b"12"
        disk.power_cut(Cut.LOSES)
        assert disk.files()["a"] == OLD
        await disk.mount().open("a")

    run(main())


def test_a_hung_disk_waits_until_released() -> None:
    async def main() -> None:
        disk = SimDisk(random.Random(1))
        mount = await prepared(disk)
        file = await mount.open("a")
        disk.faults.is_hung = True
        write = asyncio.ensure_future(file.write(0, [b"x"]))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not write.done()
        disk.release()
        await write

    run(main())


def test_a_disk_is_mounted_once() -> None:
    disk = SimDisk(random.Random(1))
    disk.mount()
    with pytest.raises(DirectoryInUseError):
        disk.mount()
    disk.kill()
    disk.mount()
