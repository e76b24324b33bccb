"""Reading entry logs: few reads of the disk, a bounded cache, and damage that hides nothing."""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from quire.errors import ConfigurationError, CorruptEntryError
from quire.run import split_run
from quire.storage.disk.local import LocalDisk
from quire.storage.disk.local_file import AT_ONCE_BYTES_MAX, THREADS
from quire.storage.entries.entry_log import CHUNK_BYTES
from quire.storage.entries.entry_reads import AHEAD_BYTES
from quire.storage.journal.options import StorageOptions
from quire.storage.node import BookieNode
from tests.sim.disk import SimFile
from tests.storage.scene import KEY, Scene, drive, run_of, sealed

LARGE = replace(StorageOptions(), low_space_bytes=0)
PAYLOAD = bytes(4000)
ENTRIES = 640


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[range]:
    """What the disk was told of before it was read."""
    ranges: list[range] = []

    def will_read(self: SimFile, offset: int, size: int) -> None:
        ranges.append(range(offset, offset + size))

    monkeypatch.setattr(SimFile, "will_read", will_read)
    return ranges


async def filled(scene: Scene, entries: int = ENTRIES) -> BookieNode:
    """Return a bookie with one ledger that is all in entry logs, and nothing cached."""
    node = await scene.start()
    for first in range(0, entries, 32):
        ids = range(first, min(first + 32, entries))
        await node.add(7, KEY, run_of(7, *ids, payload=PAYLOAD))
    await scene.close()
    return await scene.start()


async def read_in_order(node: BookieNode, bytes_max: int) -> list[int]:
    """Read ledger 7 from its beginning, and return how many entries each answer had."""
    counts, at = [], 0
    while at < ENTRIES:
        frames = dict(split_run(await node.read(7, at, ENTRIES, bytes_max=bytes_max)))
        assert list(frames) == list(range(at, at + len(frames)))
        assert all(frame == sealed(7, entry, PAYLOAD) for entry, frame in frames.items())
        counts.append(len(frames))
        at += len(frames)
        await asyncio.sleep(0)
    return counts


def only_stretch(node: BookieNode) -> range:
    """Return where the one ledger is in the one file."""
    first, *_, last = node._storage.shelf.ledgers[7].parts[0].all()
    return range(first.offset, last.offset + last.size)


@pytest.mark.parametrize("bytes_max", [1, 100_000, 1 << 20])
def test_who_reads_in_order_reads_nothing_twice_and_the_disk_knows_what_comes(
    reads: list[int], told: list[range], bytes_max: int
) -> None:
    async def main() -> None:
        scene = Scene(options=LARGE)
        node = await filled(scene)
        reads.clear()
        counts = await read_in_order(node, bytes_max)
        total = ENTRIES * (len(PAYLOAD) + 40)
        assert sum(reads) == total
        assert len(reads) <= total // CHUNK_BYTES + 1
        assert told[0].start < max(3 * bytes_max, 3 * CHUNK_BYTES), "late"
        assert told[-1].stop == only_stretch(node).stop
        for before, after in pairwise(told):
            assert before.stop == after.start, "told twice, or left out"
        assert node._storage._files.cache.counts.bytes_ahead == sum(map(len, told))
        if bytes_max == 1 << 20:
            assert all(count * 4040 > (1 << 20) - CHUNK_BYTES for count in counts[:-1])
            assert len(reads) == len(counts)
        await scene.close()

    drive(main())


def test_the_disk_is_told_neither_too_early_nor_too_late(
    reads: list[int], told: list[range]
) -> None:
    """A reader always has between one and two answers of the usual size ahead of it."""

    async def main() -> None:
        scene = Scene(options=LARGE)
        node = await filled(scene)
        chunks = node._storage.shelf.ledgers[7].parts[0].all()
        end = only_stretch(node).stop
        for at in range(ENTRIES):
            await node.read(7, at, at)
            (here,) = [chunk for chunk in chunks if chunk.first <= at <= chunk.last]
            if told:
                ahead = told[-1].stop - here.offset
                assert ahead <= 2 * AHEAD_BYTES + CHUNK_BYTES
                assert ahead >= AHEAD_BYTES - CHUNK_BYTES or told[-1].stop == end
        assert told
        await scene.close()

    drive(main())


def test_what_is_in_many_files_is_told_to_the_disk_at_once(
    reads: list[int], told: list[range]
) -> None:
    async def main() -> None:
        scene = Scene(options=LARGE)
        node = await scene.start()
        for first in range(0, 60, 10):
            await node.add(7, KEY, run_of(7, *range(first, first + 10), payload=PAYLOAD))
            await node._engine.upkeep.flush()
        reads.clear()
        for _ in range(2):  # files are opened when they are first read
            cache = node._storage._files.cache
            for stretch in list(cache._stretches):
                cache.forget(stretch)
            told.clear()
            assert len(list(split_run(await node.read(7, 0, 60)))) == 60
        assert len(told) == 6
        assert len(reads) == 12
        await scene.close()

    drive(main())


def test_random_reads_fetch_nothing_ahead(reads: list[int]) -> None:
    async def main() -> None:
        scene = Scene(options=LARGE)
        node = await filled(scene)
        reads.clear()
        for entry in (600, 17, 333, 90):
            await node.read(7, entry, entry)
        assert len(reads) == 4
        assert max(reads) <= CHUNK_BYTES
        assert node._storage._files.cache.counts.bytes_ahead == 0
        await scene.close()

    drive(main())


def test_the_cache_keeps_to_its_bound_whoever_reads(reads: list[int]) -> None:
    async def main() -> None:
        bound = 3 * CHUNK_BYTES
        scene = Scene(options=replace(LARGE, read_cache_bytes=bound))
        node = await filled(scene)
        cache = node._storage._files.cache

        async def reader(start: int) -> None:
            for entry in range(start, start + 60):
                await node.read(7, entry, entry)
                assert cache.bytes <= bound
                assert cache.bytes == sum(each.size for each in cache._stretches)

        await asyncio.gather(*(reader(start) for start in range(0, 500, 100)))
        assert cache.bytes > 0
        await scene.close()

    drive(main())


def test_no_cache_serves_too(reads: list[int]) -> None:
    async def main() -> None:
        scene = Scene(options=replace(LARGE, read_cache_bytes=0))
        node = await filled(scene)
        assert sum(await read_in_order(node, 100_000)) == ENTRIES
        cache = node._storage._files.cache
        assert (cache.bytes, cache.counts.chunks_cached) == (0, 0)
        await scene.close()

    drive(main())
    with pytest.raises(ConfigurationError, match="-1"):
        StorageOptions(read_cache_bytes=-1)


def test_what_stands_before_damage_is_served_and_what_is_damaged_is_not_absent() -> None:
    async def main() -> None:
        scene = Scene(options=LARGE)
        node = await filled(scene)
        chunks = node._storage.shelf.ledgers[7].parts[0].all()
        (path,) = [path for path in scene.disk.files() if path.endswith(".entries")]
        bad = chunks[5]
        scene.disk.rot(path, bad.offset + bad.size // 2)
        frames = dict(split_run(await node.read(7, 0, ENTRIES)))
        assert list(frames) == list(range(bad.first))
        for _ in range(2):
            with pytest.raises(CorruptEntryError):
                await node.read(7, bad.first, ENTRIES)
        frames = dict(split_run(await node.read(7, bad.last + 1, ENTRIES)))
        assert next(iter(frames)) == bad.last + 1
        scene.disk.rot(path, bad.offset + bad.size // 2)
        frames = dict(split_run(await node.read(7, bad.first, ENTRIES)))
        assert next(iter(frames)) == bad.first
        await scene.close()

    drive(main())


def test_a_file_that_cannot_be_read_says_so_and_is_read_again() -> None:
    async def main() -> None:
        scene = Scene(options=LARGE)
        node = await filled(scene)
        frames = dict(split_run(await node.read(7, 0, ENTRIES)))
        at = len(frames)
        scene.disk.faults.read_error = "entries"
        with pytest.raises(CorruptEntryError, match="cannot be read"):
            await node.read(7, at, ENTRIES)
        scene.disk.faults.read_error = None
        await node.read(7, at, ENTRIES)
        await scene.close()

    drive(main())


def test_telling_the_disk_neither_fails_nor_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []

    def advise(descriptor: int, offset: int, size: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_WILLNEED
        told.append((offset, size))
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "posix_fadvise", advise)

    async def main() -> None:
        disk = LocalDisk(tmp_path)
        file = await disk.open("a", create=True)
        await file.write(0, [bytes(10)])
        file.will_read(3, 4)
        assert told == [(3, 4)]
        gate = threading.Event()
        waiting = [disk._means.readers.run(gate.wait) for _ in range(THREADS)]
        file.will_read(3, 4)
        gate.set()
        await asyncio.gather(*waiting)
        assert told == [(3, 4)], "a disk that keeps everybody waiting was given more to do"
        await file.close()
        file.will_read(3, 4)
        assert told == [(3, 4)], "a closed file"
        await disk.close()

    asyncio.run(main())


@pytest.mark.parametrize("answer", ["cached", "must wait", "never at once", "half"])
def test_a_small_read_waits_for_a_thread_only_when_it_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    calls = 0

    def preadv(descriptor: int, buffers: list[bytearray], offset: int, flags: int) -> int:
        nonlocal calls
        calls += 1
        assert flags == os.RWF_NOWAIT
        if answer == "must wait":
            raise BlockingIOError
        if answer == "never at once":
            raise OSError(95, "not supported")
        data = os.pread(descriptor, len(buffers[0]) // (2 if answer == "half" else 1), offset)
        buffers[0][: len(data)] = data
        return len(data)

    monkeypatch.setattr(os, "preadv", preadv)

    async def main() -> None:
        disk = LocalDisk(tmp_path)
        file = await disk.open("a", create=True)
        content = os.urandom(2 * AT_ONCE_BYTES_MAX)
        await file.write(0, [content])
        for offset in range(0, 100_000, 10_000):
            assert await file.read(offset, 5000) == content[offset : offset + 5000]
        assert calls == (1 if answer == "never at once" else 10)
        assert await file.read(0, len(content)) == content
        assert await file.read(len(content) - 10, 5000) == content[-10:]
        await file.close()
        with pytest.raises(OSError, match="closed"):
            await file.read(0, 10)
        await disk.close()

    asyncio.run(main())


def test_reads_at_once_let_others_run(tmp_path: Path) -> None:
    async def main() -> None:
        disk = LocalDisk(tmp_path)
        file = await disk.open("a", create=True)
        await file.write(0, [bytes(4096)])
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        for _ in range(200):
            await file.read(0, 4096)
        assert turns > 5
        task.cancel()
        await file.close()
        await disk.close()

    asyncio.run(main())


def test_reads_of_what_is_cached_let_others_run() -> None:
    async def main() -> None:
        scene = Scene(options=LARGE)
        node = await filled(scene, 32)
        await node.read(7, 0, 0)
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        for _ in range(20):
            await node.read(7, 0, 0)
        assert turns >= 10
        task.cancel()
        await scene.close()

    drive(main())
