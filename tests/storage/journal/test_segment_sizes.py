"""Segments that were written under other options serve, and are not taken for ones of today."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quire.errors import ConfigurationError
from quire.storage.journal.options import StorageOptions
from tests.storage.scene import KEY, SMALL, Scene, drive, run_of

ENTRIES = 40


async def add(scene: Scene, first: int) -> None:
    for entry in range(first, first + ENTRIES):
        await scene.node.add(7, KEY, run_of(7, entry, payload=bytes(3000)))


@pytest.mark.parametrize("size", [32 * 1024, 128 * 1024])
def test_a_bookie_whose_segments_are_to_have_another_size_starts_again_and_again(size: int) -> None:
    async def main() -> None:
        scene = Scene()
        await scene.start()
        await add(scene, 0)
        for start in (1, 2):
            await scene.kill()
            scene.options = replace(SMALL, segment_bytes=size)
            await scene.start()
            assert await scene.node.list_entries(7) == [(0, start * ENTRIES - 1)]
            await add(scene, start * ENTRIES)
        await scene.kill()
        await scene.start()
        assert await scene.node.list_entries(7) == [(0, 3 * ENTRIES - 1)]
        await scene.close()

    drive(main())


def test_a_journal_of_one_segment_is_refused() -> None:
    """Two are always live: every flush would ask for the next."""
    with pytest.raises(ConfigurationError, match="at least 2"):
        StorageOptions(journal_segments_max=1)
