"""What a disk keeps that loses power: what its law calls durable, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from quire.errors import ConfigurationError
from quire.storage import server
from quire.storage.disk.local import LocalDisk
from tests.judges.power import OPEN, PowerDisk, cut_power, platter_of, put_under


def live(directory: Path, scene: Callable[[PowerDisk], Awaitable[None]]) -> None:
    """Play a scene on a disk, and cut its power."""

    async def main() -> None:
        disk = PowerDisk(LocalDisk(directory), directory)
        await scene(disk)
        await disk.close()

    asyncio.run(main())
    cut_power(directory)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "disk" / "journal").mkdir(parents=True)
    (tmp_path / "disk" / "old").write_bytes(b"old")
    return tmp_path / "disk"


def test_what_was_there_at_first_is_durable(directory: Path) -> None:
    async def scene(disk: PowerDisk) -> None:
        file = await disk.open("old")
        await file.write(3, [b" and new"])

    live(directory, scene)
    assert (directory / "old").read_bytes() == b"old"


@pytest.mark.parametrize("sync", [True, False])
def test_content_is_durable_once_synced(directory: Path, sync: bool) -> None:
    async def scene(disk: PowerDisk) -> None:
        file = await disk.open("journal/1", create=True)
        await disk.sync_directory("journal")
        await file.write(0, [b"a", b"b"], sync=True)
        await file.write(2, [b"c"])
        await file.truncate(4)
        if sync:
            await file.sync()

    live(directory, scene)
    assert (directory / "journal/1").read_bytes() == (b"abc\0" if sync else b"ab")


def test_a_name_is_durable_once_its_directory_is_synced(directory: Path) -> None:
    async def scene(disk: PowerDisk) -> None:
        for name in ("kept", "renamed", "lost"):
            file = await disk.open(f"journal/{name}", create=True)
            await file.write(0, [name.encode()], sync=True)
            if name != "lost":
                await disk.sync_directory("journal")
        await disk.rename("journal/renamed", "journal/new name")
        await disk.unlink("old")

    live(directory, scene)
    assert sorted(each.name for each in (directory / "journal").iterdir()) == ["kept", "renamed"]
    assert (directory / "old").exists()


@pytest.mark.parametrize("sync", [True, False])
def test_a_sync_covers_what_an_earlier_process_wrote(directory: Path, sync: bool) -> None:
    async def main() -> None:
        first = PowerDisk(LocalDisk(directory), directory)
        await (await first.open("old")).write(0, [b"new"])
        await first.close()
        second = PowerDisk(LocalDisk(directory), directory)
        file = await second.open("old")
        if sync:
            await file.sync()
        await second.close()

    asyncio.run(main())
    cut_power(directory)
    assert (directory / "old").read_bytes() == (b"new" if sync else b"old")


def test_a_bookie_is_served_from_the_platter(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may open its disk by another name one day."""
    monkeypatch.setitem(vars(server), OPEN, vars(server)[OPEN])  # and put it back
    put_under(0.0)
    with pytest.raises(ConfigurationError, match="format"):  # it is no bookie's
        asyncio.run(server.serve(directory, "memory:"))
    assert platter_of(directory).is_dir()


def test_power_is_cut_only_where_a_platter_is(directory: Path) -> None:
    with pytest.raises(RuntimeError, match="no platter"):
        cut_power(directory)
    assert (directory / "old").exists()
