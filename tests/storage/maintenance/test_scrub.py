"""Rot is found by reading everything, named by ledger and entries, and left where it is."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from quire.entry import key_check
from quire.errors import CorruptEntryError
from quire.storage.maintenance.replicas_port import Owed
from tests.storage.maintenance.fakes import FakeCopies, all_to
from tests.storage.scene import KEY, OTHER_KEY, SMALL, Scene, drive, eventually, run_of
from tests.support.virtual import virtually

FAST = replace(SMALL, scrub_seconds=0.01, scrub_bytes_per_second=1 << 40)


async def stored(files: int) -> Scene:
    scene = Scene(options=FAST)
    for number in range(files):
        await scene.start()
        for ledger in (7, 8):
            run = run_of(ledger, number, payload=bytes(3000))
            await scene.node.add(ledger, KEY, run)
        await scene.close()
    await scene.start()
    return scene


def test_a_sound_bookie_has_no_damage() -> None:
    async def main() -> None:
        scene = await stored(3)
        scrubber = scene.node.scrubber()
        await scrubber.round()
        assert scrubber.damage == []
        counts = scrubber.counts
        assert (counts.rounds, counts.files, counts.chunks, counts.damaged) == (1, 3, 6, 0)
        await scene.close()

    drive(main())


def test_every_damaged_chunk_is_named_and_its_file_kept() -> None:
    async def main() -> None:
        scene = await stored(3)
        paths = [path for path in sorted(scene.disk.files()) if path.endswith(".entries")]
        scene.disk.rot(paths[1], 54 + 100)
        scene.disk.rot(paths[2], len(scene.disk.files()[paths[2]]) - 5)
        scrubber = scene.node.scrubber()
        await scrubber.round()
        assert {damage.path for damage in scrubber.damage} == set(paths[1:])
        (chunk,) = (damage for damage in scrubber.damage if damage.ledger is not None)
        assert (chunk.ledger, chunk.first, chunk.last) == (7, 1, 1)
        assert scene.node._engine.compactor.counts.files_damaged == 2
        await scene.close()

    drive(main())


def test_it_works_by_itself_and_ends_with_its_owner() -> None:
    async def main() -> None:
        scene = await stored(1)
        path = next(path for path in scene.disk.files() if path.endswith(".entries"))
        scrubber = scene.node.scrubber()
        scrubber.start()
        await eventually(lambda: scrubber.counts.rounds > 0)
        scene.disk.rot(path, 54 + 100)
        await eventually(lambda: scrubber.counts.damaged > 0)
        await scrubber.close()
        with pytest.raises(CorruptEntryError, match="entry 0 of ledger 7"):
            await scene.node.read(7, 0, 0)
        assert scene.fatal == []
        await scene.close()

    drive(main())


@pytest.mark.parametrize(
    "lived", [250.0, 1000.0], ids=["shorter than the pause", "shorter than a round"]
)
def test_a_bookie_that_is_often_restarted_is_read_all_the_same(lived: float) -> None:
    async def main() -> None:
        slow = replace(SMALL, scrub_seconds=1000.0, scrub_bytes_per_second=10)
        scene = await stored(3)  # a chunk takes 300 s, a round 1,800
        scene.disk.rot(paths(scene)[2], 54 + 100)
        scene.options = slow
        for _ in range(50):
            await scene.close()
            await scene.start()
            scrubber = scene.node.scrubber()
            scrubber.start()
            await asyncio.sleep(lived)
            await scrubber.close()
            if scrubber.damage:
                break
        assert scrubber.damage
        await scene.close()

    virtually(main)


def paths(scene: Scene) -> list[str]:
    return [path for path in sorted(scene.disk.files()) if path.endswith(".entries")]


def test_what_is_damaged_is_taken_from_others_and_its_file_written_anew() -> None:
    async def main() -> None:
        scene = await stored(3)
        old = paths(scene)
        scene.disk.rot(old[1], 54 + 100)
        scene.disk.rot(old[2], len(scene.disk.files()[old[2]]) - 5)
        copies = FakeCopies({7: all_to(2), 8: all_to(2)})
        scrubber = scene.node.scrubber(copies.open)
        await scrubber.round()
        assert scrubber.damage == []
        assert (scrubber.counts.damaged, scrubber.counts.repaired) == (2, 2)
        assert copies.asked == [(7, 1)]
        assert not set(old[1:]) & set(paths(scene))
        for _ in range(2):
            for ledger in (7, 8):
                assert (await scene.entries(ledger)).keys() == {0, 1, 2}
            await scene.cut()  # what was put in its place is durable
            await scene.start()
        scrubber = scene.node.scrubber(copies.open)
        await scrubber.round()
        assert scrubber.damage == []
        await scene.close()

    drive(main())


def test_what_nobody_has_stays_reported_and_is_never_served() -> None:
    async def main() -> None:
        scene = await stored(2)
        path = paths(scene)[1]
        scene.disk.rot(path, 54 + 100)
        copies = FakeCopies({7: all_to(1)}, gone={1})
        scrubber = scene.node.scrubber(copies.open)
        for _ in range(2):
            await scrubber.round()
            (damage,) = scrubber.damage
            assert (damage.path, damage.ledger, damage.first) == (path, 7, 1)
            with pytest.raises(CorruptEntryError):
                await scene.node.read(7, 1, 1)
        copies.gone.clear()
        await scrubber.round()
        assert scrubber.damage == []
        assert (await scene.entries(7)).keys() == {0, 1}
        await scene.close()

    drive(main())


def test_of_an_open_ledger_damage_waits_until_it_is_settled() -> None:
    async def main() -> None:
        scene = await stored(2)
        scene.disk.rot(paths(scene)[1], 54 + 100)
        copies = FakeCopies({7: all_to(0, is_final=False)})
        scrubber = scene.node.scrubber(copies.open)
        await scrubber.round()
        assert len(scrubber.damage) == 1
        assert copies.asked == []
        copies.is_away = True
        await scrubber.round()
        assert len(scrubber.damage) == 1
        copies.is_away = False
        copies.ledgers[7] = all_to(1, is_final=False)
        await scrubber.round()
        assert scrubber.damage == []
        await scene.close()

    drive(main())


def test_a_damaged_chunk_under_another_key_gets_no_copies() -> None:
    """A stranger began the ledger here, and could read them."""

    async def main() -> None:
        scene = await stored(1)
        scene.disk.rot(paths(scene)[0], 54 + 100)
        copies = FakeCopies({7: replace(all_to(0), key_check=key_check(OTHER_KEY))})
        scrubber = scene.node.scrubber(copies.open)
        await scrubber.round()
        assert copies.asked == []
        assert len(scrubber.damage) == 1
        await scene.close()

    drive(main())


def test_a_chunk_that_was_patched_goes_with_all_its_ledger_had_in_the_file() -> None:
    async def main() -> None:
        scene = await stored(1)
        scene.disk.rot(paths(scene)[0], 54 + 100)
        copies = FakeCopies({7: Owed((), True)})  # by now others are to hold it
        scrubber = scene.node.scrubber(copies.open)
        await scrubber.round()
        assert scrubber.damage == []
        assert await scene.node.list_entries(7) == []
        assert await scene.node.list_entries(8) == [(0, 0)]
        assert (await scene.node.read_tail(7)).frame is None
        await scene.close()
        await scene.start()
        assert await scene.node.list_entries(8) == [(0, 0)]
        await scene.close()

    drive(main())
