"""A disk that fills, empties or hangs: who is refused, who still gets in, who gets an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from quire.errors import (
    BookieBusyError,
    ConfigurationError,
    LedgerFencedError,
    ReadOnlyBookieError,
)
from quire.storage.disk.port import File
from quire.storage.entries.memory_limiter import Gate
from quire.storage.journal.options import StorageOptions
from tests.storage.scene import KEY, SMALL, Scene, drive, eventually, run_of, sealed

PATIENT = replace(SMALL, space_check_seconds=0.01)
SOON = 20.0


def set_free(scene: Scene, size: int) -> None:
    scene.disk.taken_bytes += scene.disk.free_bytes - size


def test_a_read_only_bookie_opens_again_above_the_high_mark_only() -> None:
    async def main() -> None:
        scene = Scene(options=PATIENT)
        node = await scene.start()
        set_free(scene, SMALL.low_space_bytes - 1)
        await eventually(lambda: not node.is_writable)
        set_free(scene, SMALL.high_space_bytes - 1)
        looks = scene.node._engine.upkeep.space
        await eventually(lambda: scene.node._engine.upkeep.space != looks)
        await asyncio.sleep(0.03)
        assert not node.is_writable
        await node.add(7, KEY, run_of(7, 0), recovery=True)
        assert (await node.read_tail(8, fence_key=KEY)).fenced
        set_free(scene, SMALL.high_space_bytes)
        await eventually(lambda: node.is_writable)
        await scene.close()

    drive(main())


def test_spares_give_way_before_a_bookie_turns_entries_away() -> None:
    async def main() -> None:
        scene = Scene(options=replace(PATIENT, write_cache_bytes=1 << 20, memory_bytes_max=4 << 20))
        node = await scene.start()

        def spares() -> int:
            return sum(name.endswith(".spare") for name in scene.disk.files())

        for entry in range(12):
            await node.add(7, KEY, run_of(7, entry, payload=bytes(30_000)))
        await node._engine.upkeep.flush()
        assert spares() > 2, "more than any start needs"
        set_free(scene, SMALL.high_space_bytes - 1)
        await eventually(lambda: spares() == 1)
        assert node.is_writable
        await node.add(7, KEY, run_of(7, 12))
        await scene.close()

    drive(main())


def test_a_bookie_that_starts_on_a_nearly_full_disk_is_read_only_at_once() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.start()
        await scene.close()
        set_free(scene, SMALL.low_space_bytes - 1)
        node = await scene.start()
        with pytest.raises(ReadOnlyBookieError):
            await node.add(7, KEY, run_of(7, 0))
        await scene.close()

    drive(main())


def test_a_bookie_serves_for_the_first_time_where_it_has_room_for_its_reserve() -> None:
    async def main() -> None:
        scene = Scene()
        set_free(scene, SMALL.low_space_bytes - 1)
        with pytest.raises(OSError, match="No space left"):
            await scene.start()
        scene.disk.kill()
        set_free(scene, 1 << 30)
        await scene.start()
        await scene.close()

    drive(main())


def test_the_high_mark_is_not_below_the_low_one() -> None:
    with pytest.raises(ConfigurationError, match="high_space_bytes"):
        StorageOptions(low_space_bytes=1 << 40)


def test_who_waits_for_memory_is_turned_away_unless_it_has_priority() -> None:
    async def main() -> None:
        gate = Gate("b", 10, lambda: None, stall_seconds=60)
        await gate.enter(10)
        waiting = [
            asyncio.ensure_future(gate.enter(1, has_priority=number % 2 == 1))
            for number in range(4)
        ]
        await asyncio.sleep(0)
        gate.turn_away(ReadOnlyBookieError("b", "full"))
        await asyncio.sleep(0)
        assert [task.done() for task in waiting] == [True, False, True, False]
        for task in waiting[::2]:
            assert isinstance(task.exception(), ReadOnlyBookieError)
        gate.leave(10)
        await asyncio.gather(*waiting[1::2])
        assert gate.bytes == 2
        gate.leave(2)
        await gate.enter(10)

    asyncio.run(main())


def test_adds_that_wait_when_the_disk_fills_are_refused() -> None:
    async def main() -> None:
        scene = Scene(options=replace(PATIENT, low_space_bytes=0))
        node = await scene.start()
        await eventually(lambda: node._engine._segments.is_ready)
        scene.disk.faults.is_full = True
        adding = [
            asyncio.ensure_future(node.add(7, KEY, run_of(7, entry, payload=bytes(4000))))
            for entry in range(40)
        ]

        def turned_away() -> bool:
            errors = [task.exception() for task in adding if task.done()]
            return any(isinstance(error, ReadOnlyBookieError) for error in errors)

        await eventually(turned_away)
        scene.disk.faults.is_full = False
        await eventually(lambda: node.is_writable)
        results = await asyncio.gather(*adding, return_exceptions=True)
        stored = [entry for entry, result in enumerate(results) if result is None]
        assert 0 < len(stored) < len(results)
        assert list(await scene.entries(7)) == stored
        assert scene.fatal == []
        await scene.close()

    drive(main())


def test_adds_in_the_queue_of_a_journal_without_room_are_refused() -> None:
    async def main() -> None:
        scene = Scene(
            options=replace(
                PATIENT, low_space_bytes=0, write_cache_bytes=1 << 20, memory_bytes_max=2 << 20
            )
        )
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        scene.disk.faults.is_full = True
        adding = [
            node.add(7, KEY, run_of(7, entry, payload=bytes(4000)), recovery=entry % 10 == 0)
            for entry in range(1, 101)
        ]
        results = await asyncio.wait_for(
            asyncio.gather(
                *(add for entry, add in enumerate(adding, 1) if entry % 10),
                return_exceptions=True,
            ),
            SOON,
        )
        refused = [each for each in results if isinstance(each, ReadOnlyBookieError)]
        assert len(refused) == sum(each is not None for each in results) > 0
        assert not (await node.info()).writable
        scene.disk.faults.is_full = False
        await asyncio.gather(*adding[9::10])  # the entries of recoveries waited
        await eventually(lambda: node.is_writable)
        stored = [entry for entry, add in enumerate(adding, 1) if add.exception() is None]
        assert list(await scene.entries(7)) == [0, *stored]
        assert scene.node._engine.gate.bytes < (1 + len(stored)) * 4600
        await node.add(7, KEY, run_of(7, 101))
        assert scene.fatal == []
        await scene.close()

    drive(main())


def test_a_journal_that_waits_long_for_room_says_so() -> None:
    async def main() -> None:
        options = replace(PATIENT, low_space_bytes=0, stall_seconds=0.02)
        scene = Scene(options=replace(options, write_cache_bytes=1 << 20, memory_bytes_max=2 << 20))
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        scene.disk.faults.is_full = True
        waiting = [
            node.add(7, KEY, run_of(7, entry, payload=bytes(4000)), recovery=True)
            for entry in range(1, 101)
        ]
        await eventually(lambda: node._engine.is_stalled)
        with pytest.raises(BookieBusyError, match="its disk is full"):
            await node.add(7, KEY, run_of(7, 101), recovery=True)
        assert not all(add.done() for add in waiting)
        assert (await node.read_tail(7, fence_key=KEY)).fenced, "fences have room of their own"
        assert not all(add.done() for add in waiting)
        scene.disk.faults.is_full = False
        await asyncio.gather(*waiting)
        with pytest.raises(LedgerFencedError):
            await node.add(7, KEY, run_of(7, 101))
        assert scene.fatal == []
        await scene.close()

    drive(main())


def test_a_small_disk_has_small_marks() -> None:
    options = StorageOptions()
    assert options.low_mark(1 << 40) == options.low_space_bytes
    assert options.high_mark(1 << 40) == options.high_space_bytes
    assert options.low_mark(400 << 20) == 100 << 20
    assert options.high_mark(400 << 20) == 200 << 20


def test_a_nearly_full_bookie_gives_up_journal_it_does_not_need() -> None:
    async def main() -> None:
        scene = Scene(options=replace(PATIENT, write_cache_bytes=1 << 20, memory_bytes_max=2 << 20))
        node = await scene.start()
        for entry in range(60):
            await node.add(7, KEY, run_of(7, entry, payload=bytes(3000)))
        live = node._engine._segments
        assert len(live.live) > 3
        await asyncio.sleep(0.05)
        assert len(live.live) > 3
        set_free(scene, SMALL.high_space_bytes - 1)
        await eventually(lambda: len(live.live) <= 2)
        await scene.close()

    drive(main())


def test_a_hanging_disk_is_answered_for() -> None:
    async def main() -> None:
        scene = Scene(
            options=replace(
                PATIENT, stall_seconds=0.02, write_cache_bytes=1 << 20, memory_bytes_max=2 << 20
            )
        )
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        await node._engine.upkeep.flush()
        scene.disk.faults.is_hung = True
        stuck = asyncio.ensure_future(node.add(7, KEY, run_of(7, 1)))
        await eventually(lambda: node._engine.is_stalled)
        for refused in (
            node.add(7, KEY, run_of(7, 2)),
            node.add(7, KEY, run_of(7, 2), recovery=True),
            node.read_tail(7, fence_key=KEY),
            node.read(7, 0, 0, fence_key=KEY),
            node.read(7, 0, 0),
            node.sync(7, KEY, 0, 9),
        ):
            with pytest.raises(BookieBusyError, match="does not answer"):
                await refused
        assert not (await node.info()).writable
        assert not stuck.done()
        scene.disk.release()
        await stuck
        await eventually(lambda: node.is_writable)
        await node.add(7, KEY, run_of(7, 2))
        held = await scene.entries(7)
        assert held == {entry: sealed(7, entry) for entry in range(3)}
        assert scene.fatal == []
        await scene.close()

    drive(main())


def test_who_waits_for_memory_that_a_flush_cannot_free_makes_nobody_flush_again_and_again() -> None:
    """What is in the journal's queue is in no cache yet; and it is flushed as soon as it is."""

    async def main() -> None:
        scene = Scene(options=replace(SMALL, space_check_seconds=10.0))
        node = await scene.start()
        hold = asyncio.Event()
        opened = node._engine._journal._segment.file
        write = opened.write

        async def slow(offset: int, data: Sequence[bytes], *, sync: bool = False) -> None:
            await hold.wait()
            await write(offset, data, sync=sync)

        opened.write = slow  # type: ignore[assignment, method-assign]
        before = node._storage.checkpoint.generation
        adds = [
            asyncio.ensure_future(node.add(7, KEY, run_of(7, entry, payload=bytes(10_000))))
            for entry in range(14)
        ]
        await asyncio.sleep(0.5)
        assert node._storage.checkpoint.generation - before <= 2
        hold.set()
        await asyncio.gather(*adds)
        await scene.close()

    drive(main())


def test_a_list_that_a_hanging_disk_keeps_is_answered_for() -> None:
    async def main() -> None:
        scene = Scene(options=replace(PATIENT, stall_seconds=0.02, read_cache_bytes=0))
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0, 2, 4))
        await node._engine.upkeep.flush()
        scene.disk.faults.is_hung = True
        with pytest.raises(BookieBusyError, match="does not answer"):
            await node.list_entries(7)
        scene.disk.release()
        assert await node.list_entries(7) == [(0, 0), (2, 2), (4, 4)]
        await scene.close()

    drive(main())


def test_a_disk_of_entries_that_hangs_alone_is_answered_for() -> None:
    """The journal goes on, until memory is full; fences do not need any."""

    async def main() -> None:
        scene = Scene(options=replace(SMALL, stall_seconds=0.1, space_check_seconds=0.02))
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        comes_back = asyncio.Event()
        opened = scene.mount.open

        async def hanging(path: str, *, create: bool = False) -> File:
            if path.endswith(".entries"):
                await comes_back.wait()
            return await opened(path, create=create)

        scene.mount.open = hanging  # type: ignore[assignment, method-assign]
        payload = bytes(4000)
        adds = [
            asyncio.ensure_future(node.add(7, KEY, run_of(7, entry, payload=payload)))
            for entry in range(1, 40)
        ]
        recovery = asyncio.ensure_future(
            node.add(8, KEY, run_of(8, 0, payload=payload), recovery=True)
        )
        answers = await asyncio.gather(*adds, recovery, return_exceptions=True)
        refused = [answer for answer in answers if answer is not None]
        assert 0 < len(refused) < len(answers)
        assert {type(answer) for answer in refused} == {BookieBusyError}
        assert "nothing was flushed for 0.1 s" in str(refused[0])
        assert refused[-1] is answers[-1]
        await eventually(lambda: not node.is_writable)
        assert not (await node.info()).writable
        with pytest.raises(BookieBusyError, match="nothing was flushed"):
            await node.add(7, KEY, run_of(7, 99))
        assert (await node.read_tail(7, fence_key=KEY)).fenced
        comes_back.set()
        await eventually(lambda: node.is_writable)
        await node.add(9, KEY, run_of(9, 0, payload=payload))
        stored = [at for at, answer in enumerate(answers[:-1], 1) if answer is None]
        assert sorted(await scene.entries(7)) == [0, *stored]
        assert scene.fatal == []
        await scene.close()

    drive(main())
