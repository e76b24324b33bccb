"""A flush that fails, a full disk, damage and limbo: the node says so, and denies nothing."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from unittest.mock import AsyncMock, patch

import pytest

from quire.errors import (
    BookieUnavailableError,
    CorruptEntryError,
    EntryUnknownError,
    NoSuchEntryError,
    ReadOnlyBookieError,
)
from quire.observer import Observer, Source
from quire.storage.journal.options import StorageOptions
from tests.sim.disk import Cut
from tests.storage.scene import KEY, SMALL, Scene, drive, eventually, run_of, sealed


def test_a_failed_flush_ends_the_process() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        scene.disk.fail_sync("entries")
        entry = 0
        while not scene.fatal:
            try:
                await node.add(7, KEY, run_of(7, entry, payload=bytes(1000)))
                entry += 1
            except BookieUnavailableError:
                break
        await scene.cut()
        await scene.start()
        assert list(await scene.entries(7)) == list(range(entry))
        await scene.close()

    drive(main())


@pytest.mark.parametrize("held", [0, 1])
def test_a_failed_journal_write_is_not_tried_again(held: int) -> None:
    """After a failed sync the kernel may call lost pages clean (docs/protocol.md, B2)."""

    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        for entry in range(held):
            await node.add(7, KEY, run_of(7, entry))
        file = node._engine._journal._segment.file
        failing = AsyncMock(side_effect=[OSError(errno.EIO, "by order of the test"), None])
        with patch.object(file, "write", failing):
            for _ in range(2):
                with pytest.raises(BookieUnavailableError):
                    await node.add(7, KEY, run_of(7, held))
        assert failing.await_count == 1
        assert [type(error) for error in scene.fatal] == [OSError]
        await scene.cut(Cut.LOSES)
        await scene.start()
        assert list(await scene.entries(7)) == list(range(held))
        await scene.close()

    drive(main())


class _Told(Observer):
    """Keeps what an observer is told to be durable of one ledger."""

    def __init__(self) -> None:
        self.found: set[int] = set()
        self.durable: set[int] = set()
        self.is_fenced = False

    def held(self, ledger: int, entries: Sequence[int], source: Source) -> None:
        (self.found if source is Source.FOUND else self.durable).update(entries)

    def fenced(self, ledger: int) -> None:
        self.is_fenced = True


@pytest.mark.parametrize("work", ["add", "fence"])
def test_what_a_start_tells_is_durable_and_what_is_durable_is_told(work: str) -> None:
    """The sync failed, so the journal that a start reads is in the page cache alone."""

    async def attempt(change: int) -> tuple[bool, bool]:
        """Return whether the start was done in time, and whether the power cut took the work."""
        told = _Told()
        scene = Scene(observer=told)
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        scene.disk.fail_sync("journal/0000000000000001.spare")
        is_add = work == "add"
        with pytest.raises(BookieUnavailableError):
            await (node.add(7, KEY, run_of(7, 1)) if is_add else node.read_tail(7, fence_key=KEY))
        assert (told.durable, told.is_fenced) == ({0}, False)
        await scene.kill()
        is_done = await scene.cut_short(change, scene.start(), Cut.LOSES)
        durable, is_fenced = set(told.durable), told.is_fenced
        told.is_fenced = False
        node = await scene.start()
        held = set(await scene.entries(7))
        assert durable <= held <= told.durable | told.found
        assert is_fenced <= told.is_fenced == (await node.read_tail(7)).fenced
        await scene.close()
        is_kept = 1 in held if is_add else told.is_fenced
        return is_done, not is_kept

    async def main() -> None:
        ends: list[tuple[bool, bool]] = []
        while not ends or not ends[-1][0]:
            ends.append(await attempt(len(ends) + 1))
        assert any(is_lost for _, is_lost in ends)
        assert ends[-1] == (True, False)

    drive(main())


def test_a_full_disk_makes_read_only_and_space_writable_again() -> None:
    async def main() -> None:
        scene = Scene(options=_with(space_check_seconds=0.01))
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        scene.disk.faults.is_full = True
        await eventually(lambda: not node.is_writable)
        with pytest.raises(ReadOnlyBookieError):
            await node.add(7, KEY, run_of(7, 1))
        assert not (await node.info()).writable
        assert await node.read(7, 0, 0) == run_of(7, 0)
        await node.read_tail(7, fence_key=KEY)
        await node.add(7, KEY, run_of(7, 1), recovery=True)
        scene.disk.faults.is_full = False
        await eventually(lambda: node.is_writable)
        await node.add(8, KEY, run_of(8, 0))
        assert scene.fatal == []
        await scene.cut()
        await scene.start()
        assert await scene.entries(7) == {0: sealed(7, 0), 1: sealed(7, 1)}
        await scene.close()

    drive(main())


def _with(**changes: float) -> StorageOptions:
    fields = {name: getattr(SMALL, name) for name in SMALL.__slots__}
    return StorageOptions(**{**fields, **changes})


def test_a_full_disk_during_a_flush_loses_nothing() -> None:
    async def main() -> None:
        scene = Scene(options=_with(space_check_seconds=0.01, low_space_bytes=0))
        node = await scene.start()
        written = 0
        for entry in range(60):
            scene.disk.faults.is_full = entry >= 20
            try:
                await node.add(7, KEY, run_of(7, entry, payload=bytes(1000)))
                written += 1
            except ReadOnlyBookieError:
                break
        assert written < 60
        scene.disk.faults.is_full = False
        await eventually(lambda: node.is_writable)
        await node.add(7, KEY, run_of(7, written, payload=bytes(1000)))
        assert scene.fatal == []
        for _ in range(2):
            assert list(await scene.entries(7)) == list(range(written + 1))
            await scene.cut()
            await scene.start()
        await scene.close()

    drive(main())


def test_damage_in_an_entry_file_is_never_called_absence() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0, 1))
        await scene.close()
        node = await scene.start()
        (path,) = [path for path in scene.disk.files() if path.endswith(".entries")]
        spot = scene.disk.files()[path].index(b"7/1")
        scene.disk.rot(path, spot)
        for entry in (0, 1):
            with pytest.raises(CorruptEntryError):
                await node.read(7, entry, entry)
        with pytest.raises(NoSuchEntryError):
            await node.read(7, 2, 2)
        with pytest.raises(CorruptEntryError):
            await node.read_tail(7)
        scene.disk.rot(path, spot)
        scene.disk.faults.read_error = "entries"
        with pytest.raises(CorruptEntryError):
            await node.read(7, 0, 0)
        scene.disk.faults.read_error = None
        assert await node.read(7, 0, 1) == run_of(7, 0, 1)
        await scene.close()

    drive(main())


def test_limbo_says_unknown_and_never_absent() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        scene.node._storage.state(7).in_limbo = True
        scene.node._storage.touch(7)
        for _ in range(2):
            assert await node.read(7, 0, 0) == run_of(7, 0)
            with pytest.raises(EntryUnknownError):
                await node.read(7, 1, 1)
            with pytest.raises(EntryUnknownError):
                await node.read_tail(7)
            await scene.close()
            node = await scene.start()
        await scene.close()

    drive(main())
