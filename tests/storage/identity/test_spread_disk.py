"""What goes where on a disk that is spread over directories, and what is left alone there."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from quire.errors import ConfigurationError
from quire.storage.entries.entry_log import entries_path
from quire.storage.identity.spread_disk import SpreadDisk
from tests.sim.disk import Cut, SimDisk
from tests.storage.scene import KEY, SMALL, drive, eventually, run_of
from tests.storage.spread_scene import SpreadScene
from tests.support.sub_disk import SubDisk


async def spread(scene: SimDisk) -> tuple[SpreadDisk, SubDisk, SubDisk]:
    mount = scene.mount()
    disks = []
    for name in ("main", "fast", "a", "b"):
        await mount.make_directory(name)
        disks.append(SubDisk(mount, name))
    main, journal, a, b = disks
    disk = SpreadDisk(main, journal, [a, b])
    await disk.make_directory("entries")
    await disk.make_directory("journal")
    return disk, a, b


def test_the_room_for_entry_logs_is_that_of_their_directories() -> None:
    """A journal's device is often small, and compaction needs none of it."""

    async def main() -> None:
        disk, a, b = await spread(SimDisk(random.Random(1)))
        journal = disk._journal
        assert isinstance(journal, SubDisk)
        journal.made += ["x"] * 9
        a.made += ["x"] * 3
        assert (await disk.space()).free_bytes == (await journal.space()).free_bytes
        assert (await disk.space("journal")).free_bytes == (await journal.space()).free_bytes
        assert (await disk.space("entries")).free_bytes == (await b.space()).free_bytes

    drive(main())


def test_a_directory_that_was_not_used_yet_hides_no_entry_logs() -> None:
    """One that was added holds nothing before the next start, whoever looks before that."""

    async def main() -> None:
        disk, a, b = await spread(SimDisk(random.Random(1)))
        path = entries_path(1)
        await (await disk.open(path, create=True)).close()
        mount = a._disk
        await mount.make_directory("c")
        more = SpreadDisk(disk._main, disk._journal, [a, SubDisk(mount, "c"), b])
        assert await more.list("entries") == [path.partition("/")[2]]
        await (await more.open(path)).close()
        none = SpreadDisk(disk._main, disk._journal, [SubDisk(mount, "c")])
        with pytest.raises(FileNotFoundError):
            await none.list("entries")

    drive(main())


def test_new_files_go_where_most_room_is() -> None:
    async def main() -> None:
        disk, a, b = await spread(SimDisk(random.Random(1)))
        for number in range(4):
            await disk.open(f"entries/{number}", create=True)
        assert (a.made, b.made) == (["entries/0", "entries/2"], ["entries/1", "entries/3"])
        a.made += ["x"] * 5
        for number in range(4, 7):
            await disk.open(f"entries/{number}", create=True)
        assert b.made[2:] == ["entries/4", "entries/5", "entries/6"]
        assert (await disk.space()).free_bytes == (await b.space()).free_bytes
        assert await disk.list("entries") == [str(number) for number in range(7)]
        for number in range(7):
            await disk.unlink(f"entries/{number}")
        assert await disk.list("entries") == []

    drive(main())


def test_one_file_in_two_directories_is_not_guessed_about() -> None:
    async def main() -> None:
        disk, a, b = await spread(SimDisk(random.Random(1)))
        for each in (a, b):
            await each.open(entries_path(1), create=True)
        with pytest.raises(ConfigurationError, match="copy"):
            await disk.list("entries")

    drive(main())


def test_the_number_of_a_removed_file_is_used_again_when_the_removal_is_durable() -> None:
    """Else a crash while a file is written could leave two of one name."""

    async def main(seed: int) -> None:
        scene = SpreadScene(seed=seed, options=SMALL)
        await scene.start()
        await scene.close()
        node = await scene.start()
        await node.add(1, KEY, run_of(1, 0))
        await node._engine.upkeep.flush()
        (number,) = node._storage.shelf.files
        await node._storage.retire([1])
        assert await node._engine.compactor.step(0.5)
        await scene.kill()
        node = await scene.start()
        writer = node._storage.new_file()
        assert writer.number == number
        disk = node._disk
        assert isinstance(disk, SpreadDisk)
        disk._entries.reverse()  # now the other directory has most room
        await disk.open(entries_path(number), create=True)
        await scene.cut(Cut.MIXES)
        await scene.start()
        await scene.close()

    for seed in range(12):
        drive(main(seed))


def test_what_one_directory_cannot_read_the_others_still_serve() -> None:
    async def main() -> None:
        scene = SpreadScene(options=replace(SMALL, read_cache_bytes=0))
        await scene.start()
        await scene.close()
        node = await scene.start()
        for ledger in range(4):
            await node.add(ledger, KEY, run_of(ledger, 0))
            await node._engine.upkeep.flush()
        homes = {path.split("/")[0] for path in scene.disk.files() if "/entries/" in path}
        assert homes == {"big-1", "more"}
        scene.disk.faults.read_error = "more/entries"
        outcomes = await asyncio.gather(
            *(node.read(ledger, 0, 0) for ledger in range(4)), return_exceptions=True
        )
        assert sum(isinstance(each, bytes) for each in outcomes) == 2
        scene.disk.faults.read_error = None
        scene.disk.fail_sync("entries")
        await node.add(9, KEY, run_of(9, 0))
        node._engine.upkeep.request_flush()
        await eventually(lambda: bool(scene.fatal))
        await node.abort()

    drive(main())


def test_strange_files_of_one_name_in_two_directories_are_left_alone() -> None:
    async def main() -> None:
        scene = SpreadScene()
        mount = scene.disk.mount()
        disks = [SubDisk(mount, await scene._directory(name)) for name in ("main", "one", "two")]
        spread = SpreadDisk(disks[0], disks[0], disks[1:])
        for disk in disks[1:]:
            await disk.make_directory("entries")
            await (await disk.open("entries/README", create=True)).close()
        assert await spread.list("entries") == ["README"]
        await mount.close()

    drive(main())
