"""The list of a ledger's entries: all of it, in pieces each of which takes a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise

import pytest

from quire.bookie import list_all
from quire.errors import CorruptEntryError
from quire.outline import NOTHING, Outline
from quire.storage.entries import listing
from quire.storage.entries.entry_log import CHUNK_BYTES
from quire.storage.journal.options import StorageOptions
from tests.storage.scene import KEY, Scene, drive, run_of

BOUND = 4 * CHUNK_BYTES
LARGE = replace(StorageOptions(), low_space_bytes=0, list_bytes_max=BOUND)
PAYLOAD = bytes(500)
APART = range(0, 4000, 2)
PER_BOUND = BOUND // len(PAYLOAD)
"""More entries than there are in `BOUND` bytes."""


async def filled(scene: Scene, ids: Sequence[int], stay: int = 0) -> None:
    """Have a bookie hold entries of ledger 7, the last `stay` of them in memory."""
    await scene.start()
    for is_last, part in enumerate((ids[: len(ids) - stay], ids[len(ids) - stay :])):
        for start in range(0, len(part), 50):
            run = run_of(7, *part[start : start + 50], payload=PAYLOAD, lac=-1)
            await scene.node.add(7, KEY, run)
        if not is_last:
            await scene.close()
            await scene.start()


async def pieces(scene: Scene) -> list[list[tuple[int, int]]]:
    found: list[list[tuple[int, int]]] = []
    at = 0
    while piece := await scene.node.list_entries(7, at):
        found.append(piece)
        at = piece[-1][1] + 1
    return found


@pytest.mark.parametrize("stay", [0, 1000, 2000])
def test_a_list_with_gaps_comes_in_bounded_pieces(reads: list[int], stay: int) -> None:
    """Of entries in files, in memory, or in both."""

    async def main() -> None:
        scene = Scene(options=LARGE)
        await filled(scene, APART, stay)
        for first in APART[::333]:
            reads.clear()
            piece = await scene.node.list_entries(7, first)
            assert piece[0] == (first, first)
            assert len(piece) <= 2 * PER_BOUND
            assert sum(reads) <= BOUND + CHUNK_BYTES
        found = await pieces(scene)
        assert list(chain.from_iterable(found)) == [(entry, entry) for entry in APART]
        await scene.close()

    drive(main())


def test_of_what_has_no_gaps_only_the_index_is_looked_at(reads: list[int]) -> None:
    async def main() -> None:
        scene = Scene(options=LARGE)
        await filled(scene, range(4000))
        reads.clear()
        assert await pieces(scene) == [[(0, 3999)]]
        assert not reads
        await scene.close()

    drive(main())


def test_an_outline_is_told_by_the_index_alone(reads: list[int]) -> None:
    """Of entries in files and in memory, with gaps and without."""

    async def main() -> None:
        scene = Scene(options=LARGE)
        await filled(scene, APART, stay=50)
        reads.clear()
        assert await scene.node.outlines([7, 8]) == [Outline(0, 3998, 2000), NOTHING]
        assert not reads
        await scene.close()
        await filled(scene, range(1, 4000, 2))
        assert await scene.node.outlines([7]) == [None], "chunks with gaps overlap"
        assert await list_all(partial(scene.node.list_entries, 7)) == [(0, 3999)]
        await scene.close()

    drive(main())


def test_outlines_leave_other_clients_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "ROWS_AT_ONCE", 8)

    async def main() -> None:
        scene = Scene(options=LARGE)
        await filled(scene, range(100))
        asked = asyncio.ensure_future(scene.node.outlines([7] * 100))
        turns = 0
        while not asked.done():
            await asyncio.sleep(0)
            turns += 1
        assert await asked == [Outline(0, 99, 100)] * 100
        assert turns > 20
        monkeypatch.setattr(listing, "SPANS_MAX", 0)
        assert await scene.node.outlines([7, 9]) == [None, NOTHING]
        await scene.close()

    drive(main())


def test_files_that_overlap_make_one_list() -> None:
    async def main() -> None:
        scene = Scene(options=LARGE)
        for ids in (APART, range(1000, 1400), range(1, 4000, 8), range(0, 5000, 1000)):
            await filled(scene, ids)
            await scene.close()
        await scene.start()
        await scene.node.add(7, KEY, run_of(7, 3, 5000, lac=-1))
        held = {*APART, *range(1000, 1400), *range(1, 4000, 8), 3, 4000, 5000}
        found = await list_all(partial(scene.node.list_entries, 7))
        assert {entry for low, high in found for entry in range(low, high + 1)} == held
        assert all(high + 1 < low for (_, high), (low, _) in pairwise(found))
        assert found[0] == (0, 4)
        await scene.close()

    drive(main())


def test_a_list_ends_before_damage_and_does_not_pass_over_it() -> None:
    async def main() -> None:
        scene = Scene(options=LARGE)
        await filled(scene, APART)
        bad = scene.node._storage.chunks(7)[9]
        (path,) = [path for path in scene.disk.files() if path.endswith(".entries")]
        scene.disk.rot(path, bad.offset + bad.size // 2)
        found: list[tuple[int, int]] = []

        async def ask(first: int) -> list[tuple[int, int]]:
            piece = await scene.node.list_entries(7, first)
            found.extend(piece)
            return piece

        with pytest.raises(CorruptEntryError) as raised:
            await list_all(ask)
        assert raised.value.entry == bad.first
        assert found == [(entry, entry) for entry in range(0, bad.first, 2)]
        behind = await scene.node.list_entries(7, bad.last + 1)
        assert behind[0] == (bad.last + 2, bad.last + 2)
        await scene.close()

    drive(main())


def test_a_list_leaves_what_readers_fetched(reads: list[int]) -> None:
    async def main() -> None:
        scene = Scene(options=replace(LARGE, read_cache_bytes=2 * CHUNK_BYTES))
        await filled(scene, APART)
        await scene.node.read(7, 0, 0)
        await pieces(scene)
        reads.clear()
        await scene.node.read(7, 0, 0)
        assert not reads
        await scene.close()

    drive(main())
