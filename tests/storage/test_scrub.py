"""Rot is found by reading everything, named by ledger and entries, and left where it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quire.errors import CorruptEntryError
from tests.storage.scene import KEY, SMALL, Scene, drive, eventually, run_of

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
        paths = [path for path in sorted(scene.disk.files()) if path.startswith("entries/")]
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
        path = next(path for path in scene.disk.files() if path.startswith("entries/"))
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
