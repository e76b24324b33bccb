"""What is put in the place of damage stays there, costs no more than it must, and leaves nothing
behind.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from quire.entry import EntryId, LedgerId
from quire.errors import CorruptEntryError
from quire.storage.maintenance.replicas_port import Owed, Stretch
from tests.sim.disk import Cut
from tests.storage.maintenance.fakes import FakeCopies, all_to
from tests.storage.maintenance.test_scrub import paths
from tests.storage.salvage_scene import remove
from tests.storage.scene import KEY, SMALL, Scene, drive, run_of

FAST = replace(SMALL, scrub_bytes_per_second=1 << 40, upkeep_bytes_per_second=1 << 40)
ROOMY = replace(FAST, write_cache_bytes=1 << 20, memory_bytes_max=1 << 21)


async def striped(entries: int, scene: Scene | None = None) -> Scene:
    """Return a served bookie that has every other entry of ledger 7 in several chunks of one file,
    and ledger 8 behind them.
    """
    scene = scene or Scene(options=ROOMY)
    await scene.start()
    for entry in range(0, 2 * entries, 2):
        await scene.node.add(7, KEY, run_of(7, entry, payload=bytes(3000)))
    await scene.node.add(8, KEY, run_of(8, 0))
    await scene.close()
    await scene.start()
    return scene


def owed_of(entries: int) -> Owed:
    return Owed((Stretch(0, 2 * entries - 2, 2, (0,)),), is_final=True)


def test_chunks_behind_a_patched_one_are_kept_and_not_asked_for() -> None:
    async def main() -> None:
        entries = 100
        scene = await striped(entries)
        storage = scene.node._storage
        first, second, *_ = storage.chunks(7)
        scene.disk.rot(paths(scene)[0], first.offset + 100)
        copies = FakeCopies({7: owed_of(entries)}, gone=set(range(second.first, 2 * entries)))
        storage.state(7).doubt()
        mender = scene.node.mender(copies.open)
        await mender.round()
        assert mender.counts.ledgers_cleared == 1
        assert mender.counts.failures == 0
        assert all(entry <= first.last for _, entry in copies.asked)
        assert scene.node._engine.compactor.counts.files_damaged == 1
        assert list(await scene.entries(7)) == list(range(0, 2 * entries, 2))
        await scene.close()

    drive(main())


async def pair() -> Scene:
    """Return a served bookie with an entry of ledger 7 and one of ledger 8 in one file."""
    scene = Scene(options=FAST)
    await scene.start()
    for ledger in (7, 8):
        await scene.node.add(ledger, KEY, run_of(ledger, 0, payload=bytes(3000)))
    await scene.close()
    await scene.start()
    return scene


def damage_chunk(scene: Scene, ledger: int) -> None:
    (chunk,) = scene.node._storage.chunks(ledger)
    scene.disk.rot(paths(scene)[0], chunk.offset + 100)


def test_what_was_repaired_beside_other_damage_is_not_lost_with_the_others() -> None:
    async def main() -> None:
        scene = await pair()
        for ledger in (7, 8):
            damage_chunk(scene, ledger)
        copies = FakeCopies({7: all_to(0), 8: all_to(-1, is_final=False)})
        scrubber = scene.node.scrubber(copies.open)
        await scrubber.round()
        assert [damage.ledger for damage in scrubber.damage] == [8]
        good = await scene.entries(7)
        await scene.cut()
        await scene.start()
        copies.gone = {0}  # whoever gave the copy has lost it since
        scrubber = scene.node.scrubber(copies.open)
        await scrubber.round()
        assert [damage.ledger for damage in scrubber.damage] == [8]
        assert await scene.entries(7) == good
        await scene.close()

    drive(main())


def test_a_file_that_had_no_room_is_written_anew_in_the_next_round() -> None:
    async def main() -> None:
        scene = await pair()
        damage_chunk(scene, 7)
        (path,) = paths(scene)
        copies = FakeCopies({7: all_to(0), 8: all_to(0)})
        scrubber = scene.node.scrubber(copies.open)
        compactor = scene.node._engine.compactor
        leave_out = scene.node._storage.leave_out

        def leave_out_the_last(*chunk: Any) -> None:
            leave_out(*chunk)
            scene.disk.faults.is_full = True

        scene.node._storage.leave_out = leave_out_the_last  # type: ignore[method-assign, assignment]
        await scrubber.round()
        assert path in paths(scene)
        assert scrubber.damage == []
        scene.disk.faults.is_full = False
        await scrubber.round()
        assert path not in paths(scene)
        assert compactor.counts.files_written == 1
        for ledger in (7, 8):
            assert (await scene.entries(ledger)).keys() == {0}
        await scene.close()

    drive(main())


def test_of_an_open_ledger_nothing_is_given_up_that_may_be_owed_in_the_end() -> None:
    """Whoever closes it gives entries to bookies that metadata names only then."""

    async def main() -> None:
        scene = await pair()
        damage_chunk(scene, 7)
        copies = FakeCopies({7: Owed((Stretch(20, 29, 1, (0,)),), is_final=False)})
        scrubber = scene.node.scrubber(copies.open)
        await scrubber.round()
        assert [damage.ledger for damage in scrubber.damage] == [7]
        with pytest.raises(CorruptEntryError):
            await scene.node.read(7, 0, 0)
        copies.ledgers[7] = Owed((Stretch(0, 9, 1, (0,)), Stretch(20, 29, 1, (0,))), is_final=True)
        await scrubber.round()
        assert scrubber.damage == []
        assert (await scene.entries(7)).keys() == {0}
        await scene.close()

    drive(main())


class Generous(FakeCopies):
    """A bookie that gives more than it was asked for."""

    async def fetch(
        self, ledger: LedgerId, entries: Sequence[EntryId], bytes_max: int
    ) -> tuple[bytes, Sequence[EntryId]]:
        return run_of(ledger, *entries, payload=bytes(2 * bytes_max)), entries


def test_a_run_that_fits_into_no_segment_is_refused_and_the_bookie_goes_on() -> None:
    async def main() -> None:
        scene = await pair()
        damage_chunk(scene, 7)
        scrubber = scene.node.scrubber(Generous({7: all_to(0)}).open)
        async with asyncio.timeout(5):
            await scrubber.round()
            assert len(scrubber.damage) == 1
            await scene.node.add(8, KEY, run_of(8, 1))
        await scene.close()

    drive(main())


def test_a_tail_is_told_while_its_ledger_loses_what_others_hold_by_now() -> None:
    async def main() -> None:
        scene = await pair()
        damage_chunk(scene, 7)
        scrubber = scene.node.scrubber(FakeCopies({7: Owed((), True)}).open)
        serve, may_read = scene.node._storage._files.serve, asyncio.Event()

        async def serve_late(*wanted: Any) -> Any:
            await may_read.wait()
            return await serve(*wanted)

        scene.node._storage._files.serve = serve_late  # type: ignore[method-assign, assignment]
        asking = asyncio.ensure_future(scene.node.read_tail(7))
        await asyncio.sleep(0)
        await scrubber.round()
        assert scrubber.damage == []
        may_read.set()
        assert (await asking).frame is None
        await scene.close()

    drive(main())


def test_a_nearly_full_disk_is_not_filled_by_writing_a_file_anew() -> None:
    async def main() -> None:
        scene = await striped(100)
        (path,) = paths(scene)
        (number,) = scene.node._storage.shelf.files
        scene.disk.capacity_bytes = 1 << 30
        scene.disk.taken_bytes = scene.disk.capacity_bytes - 800_000
        compactor = scene.node._engine.compactor
        assert await compactor.rewrite(number) is False
        assert path in paths(scene)
        scene.disk.taken_bytes = 0
        assert await compactor.rewrite(number) is True
        assert path not in paths(scene)
        assert (await scene.entries(7)).keys() == set(range(0, 200, 2))
        await scene.close()

    drive(main())


@pytest.mark.parametrize("cut", [Cut.LOSES, Cut.MIXES])
@pytest.mark.slow
def test_a_crash_at_any_point_of_a_repair_denies_nothing(cut: Cut) -> None:
    async def main() -> None:
        is_done, change = False, 0
        while not is_done:
            change += 1
            scene = await striped(40, Scene(seed=change, options=ROOMY))
            wanted = list(range(0, 80, 2))
            scene.disk.rot(paths(scene)[0], 54 + 100)
            copies = FakeCopies({7: owed_of(40), 8: all_to(0)})
            is_done = await scene.cut_short(change, scene.node.scrubber(copies.open).round(), cut)
            await scene.node.abort()
            await scene.start()
            assert await scene.node.list_entries(8) == [(0, 0)]
            with contextlib.suppress(CorruptEntryError):
                assert list(await scene.entries(7)) == wanted
            scrubber = scene.node.scrubber(copies.open)
            await scrubber.round()
            assert scrubber.damage == []
            assert list(await scene.entries(7)) == wanted
            assert {f"entries/{n:016x}.entries" for n in scene.node._storage.shelf.files} == set(
                paths(scene)
            )
            await scene.close()
        assert change > 8

    drive(main())


def test_a_file_that_is_gone_is_written_anew_and_the_bookie_serves_on() -> None:
    async def main() -> None:
        scene = await pair()
        (path,) = paths(scene)
        remove(scene, path)
        copies = FakeCopies({7: all_to(0), 8: all_to(0)})
        scrubber = scene.node.scrubber(copies.open)
        await scrubber.round()
        assert scrubber.damage == []
        for _ in range(2):
            for ledger in (7, 8):
                assert (await scene.entries(ledger)).keys() == {0}
            await scene.cut()
            await scene.start()
        await scene.close()

    drive(main())
