"""What every `Disk` promises (port 3), on the real disk and on the simulated one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from quire.errors import ConfigurationError, DirectoryInUseError
from quire.storage.disk.local import LocalDisk
from quire.storage.disk.local_file import BUFFERS_MAX
from quire.storage.disk.port import Disk, NotAFileError, is_unreadable
from quire.storage.identity.spread_disk import SpreadDisk
from quire.storage.serving.metered import Meter, MeteredDisk
from tests.sim.disk import SimDisk

Check: TypeAlias = Callable[[Disk], Awaitable[None]]
Run: TypeAlias = Callable[[Check], None]


def opener(kind: str, path: Path) -> Callable[[], Disk]:
    """Return what opens one disk, as often as it is called."""

    def spread() -> Disk:
        main, journal, *entries = (LocalDisk(path / name, create=True) for name in "mjab")
        return SpreadDisk(main, journal, entries)

    kinds: dict[str, Callable[[], Disk]] = {
        "local": lambda: LocalDisk(path),
        "sim": SimDisk(random.Random(1)).mount,
        "spread": spread,
        "metered": lambda: MeteredDisk(LocalDisk(path), Meter()),
    }
    return kinds[kind]


@pytest.fixture(params=["local", "sim", "spread", "metered"])
def open_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Disk]:
    return opener(request.param, tmp_path)


@pytest.fixture
def run(open_disk: Callable[[], Disk]) -> Run:
    def over(check: Check) -> None:
        async def main() -> None:
            disk = open_disk()
            try:
                await check(disk)
            finally:
                await disk.close()

        asyncio.run(main())

    return over


def test_one_disk_has_one_process(run: Run, open_disk: Callable[[], Disk]) -> None:
    """V4: the second is refused before it does anything, and the first goes on undisturbed."""

    async def check(disk: Disk) -> None:
        file = await disk.open("a", create=True)
        for _ in range(2):
            with pytest.raises(DirectoryInUseError):
                open_disk()
            await file.write(0, [b"mine"], sync=True)
        await file.close()
        await disk.close()
        other = open_disk()
        again = await other.open("a")
        assert await again.read(0, 10) == b"mine"
        await again.close()
        await other.close()

    run(check)


def test_reads_see_writes(run: Run) -> None:
    async def check(disk: Disk) -> None:
        file = await disk.open("a", create=True)
        await file.write(0, [b"hello ", b"", b"world"])
        await file.write(6, [b"there"], sync=True)
        await file.sync()
        assert await file.read(0, 100) == b"hello there"
        assert await file.read(6, 2) == b"th"
        assert await file.read(11, 1) == b""
        assert file.size == 11
        await file.close()

    run(check)


def test_a_gap_reads_as_zeros(run: Run) -> None:
    async def check(disk: Disk) -> None:
        file = await disk.open("a", create=True)
        await file.write(5, [b"x"])
        assert file.size == 6
        assert await file.read(0, 6) == b"\0\0\0\0\0x"
        await file.close()

    run(check)


def test_more_buffers_than_one_system_call_takes(run: Run) -> None:
    async def check(disk: Disk) -> None:
        file = await disk.open("a", create=True)
        parts = [bytes([number % 251]) * (number % 7) for number in range(2 * BUFFERS_MAX + 3)]
        await file.write(3, parts)
        assert await file.read(3, 1 << 20) == b"".join(parts)
        await file.close()

    run(check)


def test_truncate_cuts_and_extends(run: Run) -> None:
    async def check(disk: Disk) -> None:
        file = await disk.open("a", create=True)
        await file.write(0, [b"abcdef"])
        await file.truncate(2)
        await file.truncate(4)
        assert file.size == 4
        assert await file.read(0, 10) == b"ab\0\0"
        await file.close()

    run(check)


def test_open_says_whether_the_file_must_exist(run: Run) -> None:
    async def check(disk: Disk) -> None:
        with pytest.raises(FileNotFoundError):
            await disk.open("a")
        file = await disk.open("a", create=True)
        await file.write(0, [b"kept"])
        await file.close()
        with pytest.raises(FileExistsError):
            await disk.open("a", create=True)
        again = await disk.open("a")
        assert again.size == 4
        assert await again.read(0, 4) == b"kept"
        await again.close()

    run(check)


def test_names_and_directories(run: Run) -> None:
    async def check(disk: Disk) -> None:
        assert await disk.list() == []
        with pytest.raises(FileNotFoundError):
            await disk.list("inner")
        with pytest.raises(FileNotFoundError):
            await disk.open("inner/a", create=True)
        await disk.make_directory("inner")
        await disk.make_directory("inner")
        for name in ("b", "a"):
            await (await disk.open(f"inner/{name}", create=True)).close()
        assert await disk.list() == ["inner"]
        assert await disk.list("inner") == ["a", "b"]
        await disk.sync_directory("inner")
        await disk.sync_directory()
        await disk.unlink("inner/a")
        with pytest.raises(FileNotFoundError):
            await disk.unlink("inner/a")
        assert await disk.list("inner") == ["b"]

    run(check)


def test_a_directory_is_not_opened_as_a_file(run: Run) -> None:
    async def check(disk: Disk) -> None:
        await disk.make_directory("inner")
        with pytest.raises(NotAFileError, match="a directory and not a file") as refused:
            await disk.open("inner")
        assert is_unreadable(refused.value)

    run(check)


def test_rename_replaces(run: Run) -> None:
    async def check(disk: Disk) -> None:
        for name in ("new", "old"):
            file = await disk.open(name, create=True)
            await file.write(0, [name.encode()])
            await file.close()
        await disk.rename("new", "old")
        assert await disk.list() == ["old"]
        file = await disk.open("old")
        assert await file.read(0, 9) == b"new"
        await file.close()
        with pytest.raises(FileNotFoundError):
            await disk.rename("new", "old")

    run(check)


@pytest.mark.parametrize("path", ["../a", "/etc/passwd", "a/../b", "a//b", "./a", "a/"])
def test_paths_cannot_leave_the_root(run: Run, path: str) -> None:
    async def check(disk: Disk) -> None:
        with pytest.raises(ConfigurationError):
            await disk.open(path, create=True)
        with pytest.raises(ConfigurationError):
            await disk.unlink(path)
        with pytest.raises(ConfigurationError):
            await disk.list(path)

    run(check)


def test_space_is_plausible(run: Run) -> None:
    async def check(disk: Disk) -> None:
        space = await disk.space()
        assert 0 < space.free_bytes <= space.total_bytes

    run(check)


def test_an_unlinked_file_stays_readable_while_open(run: Run) -> None:
    async def check(disk: Disk) -> None:
        file = await disk.open("a", create=True)
        await file.write(0, [b"still"])
        await disk.unlink("a")
        assert await file.read(0, 9) == b"still"
        await file.close()

    run(check)


def test_a_closed_file_refuses(run: Run) -> None:
    async def check(disk: Disk) -> None:
        file = await disk.open("a", create=True)
        await file.close()
        await file.close()
        with pytest.raises(OSError, match="closed"):
            await file.read(0, 1)

    run(check)


def test_writes_side_by_side(run: Run) -> None:
    async def check(disk: Disk) -> None:
        file = await disk.open("a", create=True)
        await asyncio.gather(
            *(file.write(10 * slot, [b"%010d" % slot], sync=True) for slot in range(20))
        )
        assert await file.read(0, 200) == b"".join(b"%010d" % slot for slot in range(20))
        await file.close()

    run(check)


def test_whole_blocks_are_overwritten_while_they_are_read(run: Run) -> None:
    """A disk may write these past what it keeps for readers."""

    async def check(disk: Disk) -> None:
        block = 4096
        file = await disk.open("a", create=True)
        await file.write(0, [bytes(8 * block)], sync=True)
        assert await file.read(0, 8 * block) == bytes(8 * block)
        await disk.rename("a", "b")
        for turn in range(3):
            parts = [bytes([65 + turn]) * 100, bytes([97 + turn]) * (2 * block - 100)]
            await file.write(block, parts, sync=True)
            assert await file.read(0, 8 * block) == (
                bytes(block) + b"".join(parts) + bytes(5 * block)
            )
            await file.write(block + 5, [b"small"])
            assert await file.read(block + 4, 7) == parts[0][:1] + b"small" + parts[0][:1]
        await asyncio.gather(
            *(file.write(at * block, [bytes([at]) * block], sync=True) for at in range(8))
        )
        await file.close()
        again = await disk.open("b")
        assert await again.read(0, 9 * block) == b"".join(bytes([at]) * block for at in range(8))
        await again.close()

    run(check)
