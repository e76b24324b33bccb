"""A shortage of descriptors is waited for, and says nothing about what is stored."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from quire.storage.disk import local
from quire.storage.disk.local import LocalDisk
from tests.storage.maintenance.test_scrub import stored
from tests.storage.scene import drive, eventually
from tests.support.command import environment

PROGRAM: Final = """
import asyncio, os, resource, sys
from quire.storage.disk.local import LocalDisk

async def main():
    disk = LocalDisk(sys.argv[1])
    await (await disk.open("there", create=True)).close()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, limits[1]))
    taken = []
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        pass
    uses = (disk.open("there"), disk.open("new", create=True), disk.sync_directory())
    waiting = [asyncio.ensure_future(use) for use in uses]
    done, _ = await asyncio.wait(waiting, timeout=1.0)
    print(len(done))
    while taken:
        os.close(taken.pop())
    for opened in await asyncio.gather(*waiting):
        if opened is not None:
            await opened.close()
    print(await disk.list())
    await disk.close()

asyncio.run(main())
"""


def test_a_process_without_descriptors_waits_for_one(tmp_path: Path) -> None:
    """A real one: this one's tests need descriptors themselves."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(),
    )
    assert (found.stdout, found.returncode) == ("0\n['new', 'there']\n", 0), found.stderr


class Shortage:
    """Refuses to open files of one directory while it lasts, and counts that."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self._root = str(root)
        self._open = os.open
        self.lasts = False
        self.refused = 0
        patch.setattr(os, "open", self.open)
        patch.setattr(local, "SHORTAGE_PAUSE", 0.01)

    def open(
        self, path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        if self.lasts and (dir_fd is not None or str(path).startswith(self._root)):
            self.refused += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return self._open(path, flags, mode, dir_fd=dir_fd)


@pytest.fixture
def shortage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shortage:
    return Shortage(tmp_path, monkeypatch)


def test_what_needs_a_descriptor_waits_for_one(tmp_path: Path, shortage: Shortage) -> None:
    async def main() -> None:
        disk = LocalDisk(tmp_path)
        await (await disk.open("there", create=True)).close()
        for use in (disk.open("there"), disk.open("new", create=True), disk.sync_directory()):
            shortage.lasts, shortage.refused = True, 0
            using = asyncio.ensure_future(use)
            await eventually(lambda: shortage.refused > 1)
            assert not using.done()
            shortage.lasts = False
            opened = await using
            if opened is not None:
                await opened.close()
        assert await disk.list() == ["new", "there"]
        await disk.close()

    asyncio.run(main())


def test_whoever_stops_waiting_leaves_nothing_behind(tmp_path: Path, shortage: Shortage) -> None:
    async def main() -> None:
        disk = LocalDisk(tmp_path)
        shortage.lasts = True
        opening = asyncio.ensure_future(disk.open("new", create=True))
        await eventually(lambda: shortage.refused > 0)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        shortage.lasts = False
        await disk.close()
        assert not (tmp_path / "new").exists()

    asyncio.run(main())


def test_a_shortage_that_stays_is_an_error(
    tmp_path: Path, shortage: Shortage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "SHORTAGE_TRIES", 3)

    async def main() -> None:
        disk = LocalDisk(tmp_path)
        shortage.lasts = True
        with pytest.raises(OSError, match="new") as told:
            await disk.open("new", create=True)
        assert (told.value.errno, shortage.refused) == (errno.EMFILE, 4)
        shortage.lasts = False
        await disk.close()

    asyncio.run(main())


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_shortage_is_no_damage(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        scene = await stored(2)
        scrubber = scene.node.scrubber()
        monkeypatch.setattr(scene.mount, "open", short)
        with pytest.raises(OSError, match="short"):
            await scrubber.look_at(7, 0)
        with pytest.raises(OSError, match="short"):
            await scrubber.round()
        with pytest.raises(OSError, match="short"):
            await scene.node.read(7, 0, 0)
        assert (scrubber.damage, scrubber.counts.damaged) == ([], 0)
        monkeypatch.undo()
        await scrubber.round()
        assert (scrubber.damage, scrubber.counts.damaged) == ([], 0)
        await scene.node.read(7, 0, 0)
        assert scene.node._engine.compactor.counts.files_damaged == 0
        await scene.close()

    async def short(path: str, *, create: bool = False) -> None:
        raise OSError(number, "short")

    drive(main())
