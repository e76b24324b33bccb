"""A shortage of descriptors is waited for, and says nothing about what is stored."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from quire.storage import local_disk
from quire.storage.local_disk import LocalDisk
from tests.storage.scene import drive, eventually
from tests.storage.test_scrub import stored


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Descriptors that leave none for others as soon as `take_all` has filled the list."""
    monkeypatch.setattr(local_disk, "SHORTAGE_PAUSE", 0.01)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, limits[1]), limits[1]))
    held: list[int] = []
    yield held
    for descriptor in held:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def take_all(held: list[int]) -> None:
    with suppress(OSError):
        while True:
            held.append(os.dup(0))


async def told(caplog: pytest.LogCaptureFixture) -> None:
    await eventually(lambda: any("waits for a descriptor" in each for each in caplog.messages))


def test_what_needs_a_descriptor_waits_for_one(
    tmp_path: Path, taken: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def main() -> None:
        disk = LocalDisk(tmp_path)
        file = await disk.open("there", create=True)
        await file.write(0, [b"sound"])
        await file.close()
        for use in (disk.open("there"), disk.open("new", create=True), disk.sync_directory()):
            caplog.clear()
            take_all(taken)
            using = asyncio.ensure_future(use)
            await told(caplog)
            assert not using.done()
            os.close(taken.pop())
            opened = await using
            if opened is not None:
                await opened.close()
        assert await disk.list() == ["new", "there"]
        await disk.close()

    asyncio.run(main())


def test_whoever_stops_waiting_leaves_nothing_open(
    tmp_path: Path, taken: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def main() -> None:
        disk = LocalDisk(tmp_path)
        take_all(taken)
        opening = asyncio.ensure_future(disk.open("new", create=True))
        await told(caplog)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        os.close(taken.pop())
        await disk.close()
        assert not (tmp_path / "new").exists()

    asyncio.run(main())


def test_a_shortage_that_stays_is_an_error(
    tmp_path: Path, taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_disk, "SHORTAGE_TRIES", 3)

    async def main() -> None:
        disk = LocalDisk(tmp_path)
        take_all(taken)
        with pytest.raises(OSError, match="new") as told:
            await disk.open("new", create=True)
        assert told.value.errno == errno.EMFILE
        os.close(taken.pop())
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
