"""Images of a crash of the real disk are recovered; damage to any file is found, never served."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from quire.errors import CorruptEntryError, IntegrityError, LedgerFencedError
from quire.run import split_run
from tests.sim.disk import Cut
from tests.storage.crash_images import Machine, campaign, record, recover
from tests.storage.scene import KEY, Scene, drive, run_of
from tests.storage.test_crash_points import TINY, Promises, add, fence
from tests.support.seeds import first_of

IMAGES = 600
"""`make crash` recovers 50,000, and `make campaigns` 2,000."""
FLIPS_PER_FILE = 40


@pytest.mark.parametrize("images", first_of(1, [IMAGES, 2000]))
def test_crash_images_are_recovered(tmp_path: Path, images: int) -> None:
    assert asyncio.run(campaign(tmp_path, images, mixes=6, seed=1)) == images


def test_the_check_can_fail(tmp_path: Path) -> None:
    """What was promised but never synced is missed: a trace without syncs loses everything."""

    async def main() -> None:
        recording = await record(tmp_path)
        machine = Machine()
        for step in recording.steps:
            step(machine)
        for inode in machine.files.values():
            inode.durable.clear()
            inode.dirty.update(range(len(inode.content) // 512 + 1))
        disk = machine.image(1, Cut.LOSES)
        with pytest.raises((AssertionError, IntegrityError)):
            await recover(recording, machine, disk)

    asyncio.run(main())


async def small() -> tuple[Scene, Promises]:
    """A killed bookie with every kind of file and a journal whose last batch has a witness."""
    scene = Scene(options=replace(TINY, witness_seconds=0.001))
    promises = Promises()
    await scene.start()
    for entry in range(12):
        await add(scene, promises, 1, entry)
    await scene.node.read_tail(3, fence_key=KEY)
    promises.fenced.add(3)
    await scene.close()
    await scene.start()
    for entry in range(12, 18):
        await add(scene, promises, 1, entry)
    await add(scene, promises, 2, 0)
    await fence(scene, promises, 2)
    await asyncio.sleep(0.05)
    await scene.kill()
    return scene, promises


async def judge(scene: Scene, promises: Promises) -> str:
    """Start on a damaged disk; whatever is answered must be true."""
    try:
        node = await scene.start()
    except IntegrityError:
        return "refused"
    outcome = "harmless"
    for (ledger, entry), index in promises.stored.items():
        try:
            ((_, frame),) = split_run(await node.read(ledger, entry, entry))
        except CorruptEntryError:
            outcome = "reported"
            continue
        assert frame in promises.sent[ledger, entry][index:], (ledger, entry)
    for ledger in sorted(promises.fenced):
        with pytest.raises(LedgerFencedError):
            await node.add(ledger, KEY, run_of(ledger, 99))
    await node.abort()
    return outcome


def copy_of(scene: Scene, files: dict[str, bytes]) -> Scene:
    copy = Scene(options=scene.options)
    for path, directory in scene.disk.directories.items():
        target = copy.disk.directories.setdefault(path, type(directory)())
        for name, inode in directory.names.items():
            data = files.get(f"{path}/{name}" if path else name, bytes(inode.content))
            target.names[name] = type(inode)(bytearray(data), bytearray(data))
        target.settle()
    return copy


def offsets(data: bytes) -> list[int]:
    """Every byte of small files; of large ones the first, the last, and some between."""
    if len(data) <= 400:
        return list(range(len(data)))
    used = len(data.rstrip(b"\0"))
    step = max(1, used // FLIPS_PER_FILE)
    ends = [*range(0, 70, 3), *range(max(0, len(data) - 110), len(data), 3)]
    return sorted({*ends, *range(0, used, step), *range(4096, min(used, 4300), 7)})


def test_a_flipped_bit_anywhere_is_found_or_harmless() -> None:
    async def main() -> None:
        scene, promises = await small()
        outcomes: dict[str, set[str]] = {}
        for path, data in scene.disk.files().items():
            for at in offsets(data):
                damaged = bytearray(data)
                damaged[at] ^= 1 << (at % 8)
                copy = copy_of(scene, {path: bytes(damaged)})
                try:
                    outcome = await judge(copy, promises)
                except BaseException as error:
                    error.add_note(f"bit {at % 8} of byte {at} of {path}")
                    raise
                outcomes.setdefault(kind_of(path), set()).add(outcome)
        assert outcomes["cookie"] == {"refused"}
        assert outcomes["journal"] >= {"refused"}
        assert outcomes["entries"] >= {"refused", "reported"}
        assert "checkpoint" in outcomes

    drive(main())


def kind_of(path: str) -> str:
    return path.split("/")[0].split("-")[0]


def test_a_file_cut_short_or_gone_is_found_or_harmless() -> None:
    async def main() -> None:
        scene, promises = await small()
        refused: set[str] = set()
        for path, data in scene.disk.files().items():
            sizes = {0, 1, 30, 69, 4096, 4200, 8192, len(data) // 2, len(data) - 1}
            for size in sorted(size for size in sizes if size < len(data)):
                copy = copy_of(scene, {path: data[:size]})
                try:
                    outcome = await judge(copy, promises)
                except BaseException as error:
                    error.add_note(f"{path} cut to {size} of {len(data)} bytes")
                    raise
                if outcome == "refused":
                    refused.add(kind_of(path))
        assert refused >= {"cookie", "journal", "entries"}

    drive(main())
