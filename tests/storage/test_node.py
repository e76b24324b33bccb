"""The bookie's law, on the storage node over a disk that forgets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quire.bookie import LedgerTail
from quire.entry import DigestKind, Sealer
from quire.errors import (
    BookieBusyError,
    BookieUnavailableError,
    ConfigurationError,
    CorruptEntryError,
    EntryUnknownError,
    InvalidRequestError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    ReadOnlyBookieError,
    UnauthorizedError,
    WrongBookieError,
)
from quire.run import pack_run, scan_run, split_run
from quire.storage.node import BookieNode
from quire.storage.options import StorageOptions
from tests.sim.disk import Cut
from tests.storage.scene import (
    BOOKIE,
    CLUSTER,
    KEY,
    SMALL,
    Scene,
    drive,
    eventually,
    run_of,
    sealed,
)

OTHER_KEY = b"o" * 20


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


def test_a_refusal_for_a_key_waits_until_the_key_is_durable() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        scene.disk.faults.is_hung = True
        adding = asyncio.ensure_future(node.add(7, KEY, run_of(7, 0)))
        refused = asyncio.ensure_future(node.add(7, OTHER_KEY, run_of(7, 1)))
        await _settle()
        assert not refused.done()
        scene.disk.release()
        await adding
        with pytest.raises(UnauthorizedError):
            await refused
        await scene.close()

    drive(main())


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def _fence_by_read(node: BookieNode) -> object:
    try:
        return await node.read(7, 0, 0, fence_key=KEY)
    except (NoSuchEntryError, NoSuchLedgerError) as error:
        return error


async def _fence_by_tail(node: BookieNode) -> object:
    return await node.read_tail(7, fence_key=KEY)


@pytest.mark.parametrize("fence", [_fence_by_read, _fence_by_tail])
@pytest.mark.parametrize("is_empty", [True, False])
def test_no_answer_to_a_fence_leaves_before_it_is_durable(fence: object, is_empty: bool) -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        if not is_empty:
            await node.add(7, KEY, run_of(7, 3))
        scene.disk.faults.is_hung = True
        asked = [asyncio.ensure_future(fence(node)) for _ in range(2)]  # type: ignore[operator]
        await _settle()
        late = asyncio.ensure_future(node.add(7, KEY, run_of(7, 4)))
        tail = asyncio.ensure_future(node.wait_tail(7, 10, 1000.0))
        await _settle()
        assert not any(task.done() for task in (*asked, late, tail))
        scene.disk.release()
        await asyncio.gather(*asked)
        with pytest.raises(LedgerFencedError):
            await late
        assert (await tail).fenced
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


def test_a_fencing_read_sees_the_adds_accepted_before_it() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        scene.disk.faults.is_hung = True
        adding = asyncio.ensure_future(node.add(7, KEY, run_of(7, 0)))
        await _settle()
        fencing = asyncio.ensure_future(node.read(7, 0, 0, fence_key=KEY))
        plain = asyncio.ensure_future(node.read(7, 0, 0))
        with pytest.raises(NoSuchEntryError):
            await plain
        scene.disk.release()
        assert await fencing == run_of(7, 0)
        await adding
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


def test_waiting_for_the_tail() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()

        async def woken_by(change: Callable[[], Awaitable[object]], above: int) -> LedgerTail:
            waiting = asyncio.ensure_future(node.wait_tail(7, above, 1000.0))
            await _settle()
            assert not waiting.done()
            await change()
            return await waiting

        tail = await woken_by(lambda: node.add(7, KEY, run_of(7, 3)), 1)
        assert tail.hint == 2
        packet = Sealer(7, DigestKind.CRC32C, b"").seal_lac(3)
        tail = await woken_by(lambda: node.write_lac(7, KEY, packet), 2)
        assert tail.lac_packet == packet
        tail = await woken_by(lambda: node.read_tail(7, fence_key=KEY), 3)
        assert tail.fenced
        assert (await node.wait_tail(7, 100, 1000.0)).fenced
        assert await node.wait_tail(9, 0, 0.0) == LedgerTail()
        assert (await node.info()).ledgers == 1
        await scene.close()

    drive(main())


def test_waiting_ends_with_the_bookie() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        waiting = asyncio.ensure_future(node.wait_tail(7, 0, 1000.0))
        await _settle()
        await scene.close()
        with pytest.raises(BookieUnavailableError):
            await waiting
        with pytest.raises(BookieUnavailableError):
            await node.add(7, KEY, run_of(7, 0))
        with pytest.raises(BookieUnavailableError):
            await node.read(7, 0, 0)

    drive(main())


def test_runs_side_by_side_are_acknowledged_in_order() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        order: list[int] = []

        async def add(entry: int) -> None:
            await node.add(7, KEY, run_of(7, entry))
            order.append(entry)

        before = scene.disk.changes
        await asyncio.gather(*(add(entry) for entry in range(50)))
        assert order == list(range(50))
        assert scene.disk.changes - before < 10, "fifty adds took fifty syncs"
        await scene.close()

    drive(main())


def test_a_cancelled_add_is_stored_or_not_and_harms_nobody() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        scene.disk.faults.is_hung = True
        adding = [asyncio.ensure_future(node.add(7, KEY, run_of(7, entry))) for entry in range(3)]
        await _settle()
        adding[1].cancel()
        await _settle()
        scene.disk.release()
        await asyncio.gather(adding[0], adding[2])
        assert await node.list_entries(7) == [(0, 2)]
        await scene.close()

    drive(main())


def test_a_failed_sync_fails_everybody_and_ends_the_process() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        await eventually(lambda: len(node._engine._segments.live) == 2)
        await _settle()
        scene.disk.fail_sync("journal")
        adding = [asyncio.ensure_future(node.add(7, KEY, run_of(7, entry))) for entry in (1, 2)]
        fencing = asyncio.ensure_future(node.read_tail(7, fence_key=KEY))
        outcomes = await asyncio.gather(*adding, fencing, return_exceptions=True)
        assert all(isinstance(outcome, BookieUnavailableError) for outcome in outcomes)
        assert len(scene.fatal) == 1
        for request in (node.add(7, KEY, run_of(7, 3)), node.read_tail(7), node.info()):
            with pytest.raises(BookieUnavailableError):
                await request
        await scene.cut()
        await scene.start()
        assert 0 in await scene.entries(7)
        await scene.close()

    drive(main())


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


def test_memory_is_bounded() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        scene.disk.faults.is_hung = True
        adding = [
            asyncio.ensure_future(node.add(7, KEY, run_of(7, entry, payload=bytes(4000))))
            for entry in range(100)
        ]
        await _settle()
        refused = [task for task in adding if task.done()]
        assert refused
        for task in refused:
            assert isinstance(task.exception(), BookieBusyError)
        scene.disk.release()
        stored = [entry for entry, task in enumerate(adding) if task not in refused]
        await asyncio.gather(*(adding[entry] for entry in stored))
        assert len(stored) == len(range(stored[0], stored[-1] + 1))
        assert list(await scene.entries(7)) == stored
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
        assert sum(path.startswith("entries/") for path in files) > 5
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


def test_damage_in_an_entry_file_is_never_called_absence() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0, 1))
        await scene.close()
        node = await scene.start()
        (path,) = [path for path in scene.disk.files() if path.startswith("entries/")]
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
        assert sum(path.startswith("entries/") for path in scene.disk.files()) > 3
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
