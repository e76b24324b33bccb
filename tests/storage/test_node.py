"""What a node holds: entries, keys, fences and tails, through crashes, caches and files."""

from __future__ import annotations

import logging

import pytest

from quire.bookie import LedgerTail
from quire.entry import DigestKind, Sealer
from quire.errors import (
    ConfigurationError,
    InvalidRequestError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnauthorizedError,
    WrongBookieError,
)
from quire.run import pack_run, scan_run, split_run
from quire.storage.node import BookieNode
from tests.sim.disk import Cut
from tests.storage.scene import BOOKIE, CLUSTER, KEY, OTHER_KEY, Scene, drive, run_of, sealed


def test_an_added_run_is_read_back() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0, 1, 2))
        assert await node.read(7, 0, 2) == run_of(7, 0, 1, 2)
        assert await node.read(7, 1, 1) == run_of(7, 1)
        assert await node.list_entries(7) == [(0, 2)]
        await scene.close()

    drive(main())


@pytest.mark.parametrize("stop", ["kill", "cut", "close"])
def test_what_was_acknowledged_survives(stop: str) -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        for first in range(0, 30, 3):
            await node.add(7, KEY, run_of(7, first, first + 1, first + 2))
        await node.add(8, KEY, run_of(8, 5))
        for _ in range(3):
            await getattr(scene, stop)()
            await scene.start()
            assert await scene.entries(7) == {entry: sealed(7, entry) for entry in range(30)}
            assert await scene.entries(8) == {5: sealed(8, 5)}
        await scene.close()

    drive(main())


def test_a_start_tells_what_it_replayed(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        caplog.set_level(logging.INFO)
        scene = Scene()
        node = await scene.start()
        for entry in range(5):
            await node.add(7, KEY, run_of(7, entry))
        await scene.cut()
        counters = (await (await scene.start()).info()).counters
        assert counters["replay_records"] >= 5
        assert counters["replay_bytes"] >= 5 * len(run_of(7, 0))
        assert f"replayed {counters['replay_records']} records" in caplog.text
        caplog.clear()
        await scene.close()
        counters = (await (await scene.start()).info()).counters
        assert (counters["replay_records"], counters["replay_bytes"]) == (0, 0)
        assert "replayed" not in caplog.text
        await scene.close()

    drive(main())


def test_missing_entries_and_ledgers_are_told_apart() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        with pytest.raises(NoSuchLedgerError):
            await node.read(7, 0, 0)
        await node.add(7, KEY, run_of(7, 2, 4))
        with pytest.raises(NoSuchEntryError):
            await node.read(7, 3, 3)
        with pytest.raises(NoSuchEntryError):
            await node.read(7, 5, 1 << 62)
        assert await node.read(7, 0, 100) == run_of(7, 2, 4)
        assert await node.list_entries(7) == [(2, 2), (4, 4)]
        assert await node.list_entries(9) == []
        await scene.close()

    drive(main())


def test_reads_are_cut_but_never_empty() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, *range(10), payload=bytes(100)))
        size = len(run_of(7, 0, payload=bytes(100)))
        assert await node.read(7, 2, 9, bytes_max=1) == run_of(7, 2, payload=bytes(100))
        three = await node.read(7, 2, 9, bytes_max=3 * size + 5)
        assert three == run_of(7, 2, 3, 4, payload=bytes(100))
        await scene.close()

    drive(main())


def test_the_same_entry_again_and_recovery_replace() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0, 1, 2))
        await node.add(7, KEY, run_of(7, 0, 1, 2))
        await node.add(7, KEY, run_of(7, 1, lac=-1), recovery=True)
        expected = {0: sealed(7, 0), 1: sealed(7, 1, lac=-1), 2: sealed(7, 2)}
        assert await scene.entries(7) == expected
        await scene.close()
        node = await scene.start()
        assert await scene.entries(7) == expected
        await node.add(7, KEY, run_of(7, 2, lac=0), recovery=True)
        expected[2] = sealed(7, 2, lac=0)
        assert dict(split_run(await node.read(7, 0, 9))) == expected
        await scene.close()
        await scene.start()
        assert await scene.entries(7) == expected
        await scene.close()

    drive(main())


@pytest.mark.parametrize(
    "run", [b"", b"x", run_of(8, 0), run_of(7, 0) + b"x", run_of(7, 0, payload=bytes(64 * 1024))]
)
def test_a_run_that_is_none_is_refused(run: bytes) -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        with pytest.raises(InvalidRequestError):
            await node.add(7, KEY, run)
        with pytest.raises(NoSuchLedgerError):
            await node.read(7, 0, 0)
        await scene.close()

    drive(main())


def test_ranges_that_are_none_are_refused() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        for first, last, size in ((-1, 0, 1), (1, 0, 1), (0, 0, 0)):
            with pytest.raises(InvalidRequestError):
                await node.read(7, first, last, bytes_max=size)
        with pytest.raises(InvalidRequestError):
            await node.add(7, bytes(65), run_of(7, 0))
        await scene.close()

    drive(main())


def test_the_first_key_counts_for_ever() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        for _ in range(2):
            with pytest.raises(UnauthorizedError):
                await node.add(7, OTHER_KEY, run_of(7, 1))
            with pytest.raises(UnauthorizedError):
                await node.read(7, 0, 0, fence_key=OTHER_KEY)
            with pytest.raises(UnauthorizedError):
                await node.write_lac(7, OTHER_KEY, Sealer(7, DigestKind.CRC32C, b"").seal_lac(0))
            await node.add(7, KEY, run_of(7, 1))
            await scene.cut()
            node = await scene.start()
        await scene.close()

    drive(main())


@pytest.mark.parametrize("cut", list(Cut))
def test_a_fence_survives_even_on_an_empty_ledger(cut: Cut) -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        assert await node.read_tail(7, fence_key=KEY) == LedgerTail(fenced=True)
        for _ in range(3):
            with pytest.raises(LedgerFencedError):
                await node.add(7, KEY, run_of(7, 0))
            with pytest.raises(UnauthorizedError):
                await node.add(7, OTHER_KEY, run_of(7, 0))
            with pytest.raises(LedgerFencedError):
                await node.write_lac(7, KEY, Sealer(7, DigestKind.CRC32C, b"").seal_lac(0))
            await scene.cut(cut)
            node = await scene.start()
        await node.add(7, KEY, run_of(7, 0), recovery=True)
        assert await scene.entries(7) == {0: sealed(7, 0)}
        await scene.close()

    drive(main())


def test_tail_says_what_is_held() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        assert await node.read_tail(7) == LedgerTail()
        packet = Sealer(7, DigestKind.CRC32C, b"").seal_lac(9)
        await node.add(7, KEY, run_of(7, 0, 5))
        assert await node.read_tail(7) == LedgerTail(sealed(7, 5), None, 4, False)
        await node.write_lac(7, KEY, packet)
        await node.write_lac(7, KEY, Sealer(7, DigestKind.CRC32C, b"").seal_lac(8))
        assert await node.read_tail(7) == LedgerTail(sealed(7, 5), packet, 9, False)
        await scene.close()
        node = await scene.start()
        assert await node.read_tail(7) == LedgerTail(sealed(7, 5), packet, 9, False)
        for bad in (b"", packet[:15], Sealer(8, DigestKind.NONE, b"").seal_lac(9), bytes(60)):
            with pytest.raises(InvalidRequestError):
                await node.write_lac(7, KEY, bad)
        await scene.close()

    drive(main())


def test_what_is_known_of_lac_alone_outlives_a_stop_in_order() -> None:
    """A packet changes a state and no entry; a hint may come from an entry that is not the last."""

    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0, 5))
        await node.add(8, KEY, run_of(8, 0, 1, 2, 3))
        await node.add(8, KEY, run_of(8, 4, lac=-1), recovery=True)
        await scene.close()
        node = await scene.start()
        packet = Sealer(7, DigestKind.CRC32C, b"").seal_lac(9)
        await node.write_lac(7, KEY, packet)
        for _ in range(2):
            await scene.close()
            node = await scene.start()
            assert await node.read_tail(7) == LedgerTail(sealed(7, 5), packet, 9, False)
            assert await node.read_tail(8) == LedgerTail(sealed(8, 4, lac=-1), None, 2, False)
        await scene.close()

    drive(main())


def test_ten_times_the_cache_flows_through_files_and_recycled_segments() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        total = 400
        for first in range(0, total, 4):
            ids = range(first, first + 4)
            await node.add(7, KEY, run_of(7, *ids, payload=bytes(1000)))
            await node.add(8, KEY, run_of(8, *(2 * entry for entry in ids)))
        files = scene.disk.files()
        assert sum(path.endswith(".entries") for path in files) > 5
        assert sum(path.startswith("journal/") for path in files) < 20
        for _ in range(2):
            assert list(await scene.entries(7)) == list(range(total))
            assert await scene.entries(8) == {
                2 * entry: sealed(8, 2 * entry) for entry in range(total)
            }
            await scene.cut()
            await scene.start()
        await scene.close()

    drive(main())


def test_only_its_own_directory_opens() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.start()
        await scene.close()
        mount = scene.disk.mount()
        for bookie, cluster in (("a" * 32, CLUSTER), (BOOKIE, "a" * 32)):
            with pytest.raises(WrongBookieError):
                await BookieNode.open(
                    mount, bookie, cluster, rng=scene.rng, on_fatal=scene.fatal.append
                )
        empty = Scene()
        with pytest.raises(ConfigurationError, match="format"):
            await BookieNode.open(
                empty.disk.mount(), BOOKIE, CLUSTER, rng=scene.rng, on_fatal=scene.fatal.append
            )

    drive(main())


def test_a_read_across_files_caches_and_gaps() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        model: dict[int, bytes] = {}
        for step in range(120):
            start = scene.rng.randrange(0, 200)
            ids = sorted(scene.rng.sample(range(start, start + 12), 5))
            frames = {entry: sealed(7, entry, b"%d" % step * 200, lac=-1) for entry in ids}
            await node.add(7, KEY, pack_run(frames.values()), recovery=True)
            model.update(frames)
        assert sum(path.endswith(".entries") for path in scene.disk.files()) > 3
        for _ in range(100):
            first = scene.rng.randrange(0, 220)
            last = first + scene.rng.randrange(0, 40)
            size = scene.rng.choice([1, 900, 5000, 1 << 20])
            expected = [entry for entry in sorted(model) if first <= entry <= last]
            try:
                run = await node.read(7, first, last, bytes_max=size)
            except NoSuchEntryError:
                assert expected == []
                continue
            got = dict(split_run(run))
            assert list(got) == expected[: len(got)]
            assert got == {entry: model[entry] for entry in got}
            assert len(run) <= size or len(got) == 1
            fits = sum(4 + len(model[entry]) for entry in expected[: len(got) + 1])
            assert len(got) == len(expected) or fits > size
        assert scan_run(await node.read(7, 0, 300)).first == min(model)
        assert await scene.entries(7) == model
        await scene.close()

    drive(main())
