"""Reading entry logs: few reads of the disk, a bounded cache, and damage that hides nothing."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from quire.errors import ConfigurationError, CorruptEntryError
from quire.run import split_run
from quire.storage.entry_log import CHUNK_BYTES
from quire.storage.local_disk import LocalDisk
from quire.storage.local_file import AT_ONCE_BYTES_MAX
from quire.storage.node import BookieNode
from quire.storage.options import StorageOptions
from tests.sim.disk import SimFile
from tests.storage.scene import KEY, Scene, drive, run_of, sealed

LARGE = replace(StorageOptions(), low_space_bytes=0)
PAYLOAD = bytes(4000)
ENTRIES = 640


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all reads of entry logs."""
    sizes: list[int] = []
    read = SimFile.read

    async def counted(self: SimFile, offset: int, size: int) -> bytes:
        if self._path.startswith("entries"):
            sizes.append(size)
        return await read(self, offset, size)

    monkeypatch.setattr(SimFile, "read", counted)
    return sizes


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


def test_who_reads_single_entries_in_order_costs_a_read_per_stretch(reads: list[int]) -> None:
    async def main() -> None:
        scene = Scene(options=LARGE)
        node = await filled(scene)
        reads.clear()
        assert await read_in_order(node, 1) == [1] * ENTRIES
        total = ENTRIES * (len(PAYLOAD) + 40)
        assert sum(reads) == total  # nothing is read twice
        assert len(reads) <= 2 + 2 * total // (1 << 20)
        await scene.close()

    drive(main())


def test_large_answers_end_where_chunks_do_and_are_fetched_ahead(reads: list[int]) -> None:
    async def main() -> None:
        scene = Scene(options=LARGE)
        node = await filled(scene)
        reads.clear()
        counts = await read_in_order(node, 1 << 20)
        assert all(count * 4040 > (1 << 20) - CHUNK_BYTES for count in counts[:-1])
        assert len(reads) == len(counts)
        assert sum(reads) == ENTRIES * (len(PAYLOAD) + 40)
        seen = node._storage._files.cache.counts
        assert seen.bytes_ahead == sum(reads[1:]) - reads[1]  # from the third on: now it is certain
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
        assert (cache.bytes, cache.counts.chunks_cached, cache.counts.bytes_ahead) == (0, 0, 0)
        await scene.close()

    drive(main())
    with pytest.raises(ConfigurationError, match="-1"):
        StorageOptions(read_cache_bytes=-1)


def test_what_stands_before_damage_is_served_and_what_is_damaged_is_not_absent() -> None:
    async def main() -> None:
        scene = Scene(options=LARGE)
        node = await filled(scene)
        chunks = node._storage.shelf.ledgers[7].parts[0].all()
        (path,) = [path for path in scene.disk.files() if path.startswith("entries/")]
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


def test_a_read_ahead_that_fails_is_the_business_of_whoever_wants_it() -> None:
    async def main() -> None:
        scene = Scene(options=LARGE)
        node = await filled(scene)
        frames = dict(split_run(await node.read(7, 0, ENTRIES)))
        at = len(frames)
        frames = dict(split_run(await node.read(7, at, ENTRIES)))
        scene.disk.faults.read_error = "entries"
        await asyncio.sleep(0.01)
        with pytest.raises(CorruptEntryError, match="cannot be read"):
            await node.read(7, at + len(frames), ENTRIES)
        scene.disk.faults.read_error = None
        await node.read(7, at + len(frames), ENTRIES)
        await scene.close()

    drive(main())


def test_a_bookie_that_ends_leaves_no_read_behind() -> None:
    async def main() -> None:
        scene = Scene(options=LARGE)
        node = await filled(scene)
        at = len(dict(split_run(await node.read(7, 0, ENTRIES))))
        before = asyncio.all_tasks()
        await node.read(7, at, ENTRIES)
        assert node._storage._files._ahead
        scene.disk.faults.is_hung = True
        await asyncio.sleep(0)
        await node.abort()
        assert asyncio.all_tasks() <= before

    drive(main())


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
