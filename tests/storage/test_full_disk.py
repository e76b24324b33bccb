"""A flush that meets a full disk, at each of its steps: what was to be written is not forgotten.

The checkpoint moves on with the next flush, and nothing before it is replayed again. So what a
flush had taken up when it failed must be in the next one: entries, keys, and fences.
"""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest

from quire.errors import LedgerFencedError, UnauthorizedError
from quire.storage.entries.entry_log import ENTRIES
from quire.storage.node import BookieNode
from tests.sim.disk import Cut
from tests.storage.scene import KEY, OTHER_KEY, Scene, drive, eventually, run_of

FENCED, KEYED, LATE = 7, 8, 9


class Shortage:
    """No room at the growth number `at`, from 1, of a file or a directory: once."""

    def __init__(self, scene: Scene, at: int) -> None:
        self.left = at
        self._check = scene.disk.check_room
        scene.disk.check_room = self.check  # type: ignore[method-assign]

    def check(self, growth: int) -> None:
        self.left -= 1
        if not self.left:
            raise OSError(errno.ENOSPC, "no space left, by order of the test")
        self._check(growth)

    @property
    def was_met(self) -> bool:
        return self.left <= 0


class UnsyncedNames:
    """No space at the sync number `at`, from 1, of the names in a directory: once."""

    def __init__(self, scene: Scene, at: int) -> None:
        self.left = at
        self._sync = scene.mount.sync_directory
        scene.mount.sync_directory = self.sync  # type: ignore[method-assign]

    async def sync(self, directory: str = "") -> None:
        self.left -= 1
        if not self.left:
            raise OSError(errno.ENOSPC, "no space left, by order of the test", directory)
        await self._sync(directory)

    @property
    def was_met(self) -> bool:
        return self.left <= 0


async def flush(node: BookieNode) -> None:
    await node._engine.upkeep.flush()


async def check_fenced(node: BookieNode, ledger: int) -> None:
    assert (await node.read_tail(ledger)).fenced
    with pytest.raises(LedgerFencedError):
        await node.add(ledger, KEY, run_of(ledger, 50))


@pytest.mark.parametrize("entries", [0, 3])
def test_what_a_flush_had_taken_up_when_the_disk_was_full_is_in_the_next(entries: int) -> None:
    """Fences alone are the case in which the position moves on with the second flush; with entries
    the first one's is kept, and yet the states are written by the second.
    """

    async def main(at: int) -> bool:
        scene = Scene()
        node = await scene.start()
        await node.add(FENCED, KEY, run_of(FENCED, 0))
        await flush(node)
        await node.read_tail(FENCED, fence_key=KEY)
        await node.read_tail(KEYED, fence_key=KEY)
        for entry in range(1, 1 + entries):
            await node.add(FENCED, KEY, run_of(FENCED, entry), recovery=True)
        shortage = Shortage(scene, at)
        await flush(node)
        was_met = shortage.was_met
        await node.read_tail(LATE, fence_key=KEY)
        await node.add(LATE, KEY, run_of(LATE, 0), recovery=True)
        await flush(node)
        await scene.cut(Cut.LOSES)
        node = await scene.start()
        for ledger in (FENCED, KEYED, LATE):
            await check_fenced(node, ledger)
            with pytest.raises(UnauthorizedError):
                await node.add(ledger, OTHER_KEY, run_of(ledger, 50), recovery=True)
        assert list(await scene.entries(FENCED)) == list(range(1 + entries))
        assert list(await scene.entries(LATE)) == [0], "it is of neither flush, or of the second"
        assert scene.fatal == []
        await scene.close()
        return was_met

    async def everywhere() -> None:
        steps = 0
        while await main(steps + 1):
            steps += 1
        assert steps > 3

    drive(everywhere())


@pytest.mark.parametrize("is_compacting", [False, True], ids=["flush", "compaction"])
def test_no_file_is_removed_that_a_checkpoint_names_without_its_sync(is_compacting: bool) -> None:
    """The checkpoint has its new name when there is no space to sync the name: the next process
    may find it, and needs the files in it.
    """

    async def main(at: int) -> bool:
        scene = Scene()
        node = await scene.start()
        for entry in range(2):
            await node.add(FENCED, KEY, run_of(FENCED, entry))
            await flush(node)
        await node.read_tail(FENCED, fence_key=KEY)
        await node.add(FENCED, KEY, run_of(FENCED, 2), recovery=True)
        await eventually(lambda: node._engine._segments.is_ready)
        names = UnsyncedNames(scene, at)
        with suppress(OSError):  # the process ends
            if is_compacting:
                await node._engine.compactor.rewrite(1)
            else:
                await flush(node)
        was_met = names.was_met
        await scene.kill()
        node = await scene.start()
        await check_fenced(node, FENCED)
        assert list(await scene.entries(FENCED)) == [0, 1, 2]
        await scene.close()
        return was_met

    async def everywhere() -> None:
        steps = 0
        while await main(steps + 1):
            steps += 1
        assert steps > 1

    drive(everywhere())


def test_a_flush_without_space_for_the_name_of_its_file_leaves_no_file() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(FENCED, KEY, run_of(FENCED, 0))
        await eventually(lambda: node._engine._segments.is_ready)
        before = set(await scene.mount.list(ENTRIES))
        UnsyncedNames(scene, 1)
        await flush(node)
        assert set(await scene.mount.list(ENTRIES)) == before
        await flush(node)
        assert list(await scene.entries(FENCED)) == [0]
        await scene.close()

    drive(main())
