"""A torn tail is dropped, a damaged middle stops the bookie; no flipped byte loses what was
kept.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from quire.errors import CorruptStorageError
from quire.storage.disk.blocks import BLOCK_BYTES, align
from quire.storage.journal.record import (
    RECORD_HEADER_BYTES,
    RecordKind,
    SegmentHeader,
    decode_segment,
    encode_record,
    encode_segment,
    find_proof,
    read_records,
)
from tests.sim.disk import SimDisk
from tests.storage.scene import KEY, SMALL, Scene, drive, eventually, run_of, sealed

BATCHES = 4


def record(sequence: int, durable: int, body: bytes, is_last: bool = True) -> bytes:
    return encode_record(RecordKind.RUN, body, sequence, durable, 5, int(is_last)) + body


def journal(*batches: bytes) -> bytes:
    return b"".join(batch.ljust(align(len(batch)), b"\0") for batch in batches)


def test_a_segment_header_says_who_it_is_or_is_refused() -> None:
    header = SegmentHeader(3, 5, 7, SMALL.segment_bytes, "b" * 32)
    block = encode_segment(header)
    assert len(block) == BLOCK_BYTES
    assert decode_segment("path", block) == header
    for at in range(78):
        damaged = bytearray(block)
        damaged[at] ^= 1
        with pytest.raises(CorruptStorageError, match="path"):
            decode_segment("path", bytes(damaged))


def test_records_of_another_life_are_not_read() -> None:
    data = journal(record(1, 0, b"a"))
    assert len(read_records(data, 0, 5, 1)[0]) == 1
    assert read_records(data, 0, 6, 1)[0] == []
    assert read_records(data, 0, 5, 2)[0] == []


def test_a_later_record_of_the_same_batch_is_no_proof_but_a_later_batch_is() -> None:
    torn = bytearray(journal(record(1, 0, b"a", False) + record(2, 0, b"b" * 5000)))
    torn[RECORD_HEADER_BYTES] ^= 1
    assert find_proof(bytes(torn), 0, 5, 1) is None
    kept = bytes(torn) + journal(record(3, 2, b"c"))
    assert find_proof(kept, 0, 5, 1) == len(torn)
    assert find_proof(kept, 0, 6, 1) is None


async def _written() -> tuple[Scene, str, list[int]]:
    """Return a killed bookie, its segment, and where each batch begins."""
    scene = Scene()
    node = await scene.start()
    starts: list[int] = []
    for entry in range(BATCHES):
        position = node._engine._journal.position()
        starts.append(position.offset)
        await node.add(7, KEY, run_of(7, entry))
    path = f"journal/{position.segment:016x}.journal"
    await scene.kill()
    return scene, path, starts


def _copy(scene: Scene) -> Scene:
    """Return a bookie that was killed in the same state, on a disk of its own."""
    copy = Scene()
    mount_free = SimDisk(random.Random(1))
    for path, directory in scene.disk.directories.items():
        target = mount_free.directories.setdefault(path, type(directory)())
        for name, inode in directory.names.items():
            target.names[name] = type(inode)(bytearray(inode.content), bytearray(inode.content))
        target.settle()
    copy.disk = mount_free
    return copy


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_every_flipped_byte_is_found_or_harmless(every: int) -> None:
    """Batch by batch: header, key record, body and padding. The last one may pass for torn."""

    async def main() -> None:
        scene, path, starts = await _written()
        used = [at for start in starts for at in (*range(start, start + 320), start + 4000)]
        outcomes: set[str] = set()
        for at in [*range(80), *used][::every]:
            damaged = _copy(scene)
            damaged.disk.rot(path, at, 1 << (at % 8))
            try:
                await damaged.start()
            except CorruptStorageError:
                outcomes.add("refused")
                continue
            held = await damaged.entries(7)
            certain = BATCHES - 1 if at >= starts[-1] else BATCHES
            assert held == {entry: sealed(7, entry) for entry in range(len(held))}, at
            assert len(held) >= certain, f"flip of byte {at} lost an entry silently"
            outcomes.add("torn" if len(held) < BATCHES else "harmless")
            await damaged.node.abort()
        assert outcomes == {"refused", "torn", "harmless"}

    drive(main())


def test_a_segment_that_was_cut_short_is_refused() -> None:
    """Wherever the cut is: what is gone may be the only copy of something acknowledged."""

    async def main() -> None:
        scene, path, starts = await _written()
        for size in (0, 40, BLOCK_BYTES, *starts[1:], starts[-1] + 100, SMALL.segment_bytes - 1):
            damaged = _copy(scene)
            inode = damaged.disk.directories["journal"].names[path.removeprefix("journal/")]
            del inode.content[size:]
            with pytest.raises(CorruptStorageError, match=r"cut|too short"):
                await damaged.start()

    drive(main())


def test_a_missing_segment_is_never_an_empty_one() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        for entry in range(18):
            await node.add(7, KEY, run_of(7, entry))
        await scene.kill()
        numbers = sorted(path for path in scene.disk.files() if path.endswith(".journal"))
        assert len(numbers) >= 3
        for path in numbers[:2]:
            damaged = _copy(scene)
            del damaged.disk.directories["journal"].names[path.removeprefix("journal/")]
            with pytest.raises(CorruptStorageError, match=r"missing|continue"):
                await damaged.start()

    drive(main())


@pytest.mark.parametrize("is_both", [False, True])
def test_a_damaged_checkpoint_is_found(is_both: bool) -> None:
    async def main() -> None:
        scene, _, _ = await _written()
        paths = [path for path in scene.disk.files() if path.startswith("checkpoint")]
        assert len(paths) == 2
        for path in paths:
            damaged = _copy(scene)
            for target in paths if is_both else [path]:
                damaged.disk.rot(target, 60)
            try:
                await damaged.start()
            except CorruptStorageError:
                continue
            assert not is_both
            assert list(await damaged.entries(7)) == list(range(BATCHES))
            await damaged.node.abort()
        lost = _copy(scene)
        for path in paths:
            del lost.disk.directories[""].names[path]
        with pytest.raises(CorruptStorageError, match="missing"):
            await lost.start()

    drive(main())


def test_an_unfinished_entry_file_is_removed_and_a_listed_one_must_be_there() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        await scene.close()
        (path,) = [path for path in scene.disk.files() if path.endswith(".entries")]
        names = scene.disk.directories["entries"].names
        names["00000000000000ff.entries"] = type(next(iter(names.values())))()
        names["notes.txt"] = type(next(iter(names.values())))()
        await scene.start()
        assert "00000000000000ff.entries" not in names
        assert "notes.txt" in names
        await scene.close()
        size = len(scene.disk.files()[path])
        for at in (0, 20, size - 1, size - 30, size - 80):
            damaged = _copy(scene)
            damaged.disk.rot(path, at)
            with pytest.raises(CorruptStorageError, match="entries"):
                await damaged.start()
        del names[path.removeprefix("entries/")]
        with pytest.raises(CorruptStorageError, match="missing"):
            await scene.start()

    drive(main())


def test_stale_bytes_of_a_recycled_segment_are_never_replayed() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        for entry in range(150):
            await node.add(7, KEY, run_of(7, entry, payload=bytes(1000)))
        await asyncio.sleep(0)
        held = await scene.entries(7)
        assert list(held) == list(range(150))
        for _ in range(4):
            await scene.kill()
            await scene.start()
            assert await scene.entries(7) == held
        await scene.close()

    drive(main())


def test_rot_in_the_last_batch_is_proven_once_the_journal_fell_idle() -> None:
    async def main() -> None:
        scene = Scene(options=replace(SMALL, witness_seconds=0.001))
        node = await scene.start()
        journal_ = node._engine._journal
        start = journal_.position()
        await node.add(7, KEY, run_of(7, 0))
        end = journal_.position().offset
        await eventually(lambda: journal_.position().offset > end)
        witnessed = journal_.position()
        await asyncio.sleep(0.02)
        assert journal_.position() == witnessed, "one witness per pause is enough"
        await scene.kill()
        path = f"journal/{start.segment:016x}.journal"
        for at in range(start.offset, start.offset + 159):
            damaged = _copy(scene)
            damaged.disk.rot(path, at)
            with pytest.raises(CorruptStorageError, match="durable"):
                await damaged.start()

    drive(main())
