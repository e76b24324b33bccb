"""A chunk of several entries is damaged: each answer is about the entry that was asked for."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import CorruptEntryError, NoSuchEntryError
from tests.storage.scene import KEY, Scene, drive, run_of, sealed

LEDGER, ENTRIES = 7, 5


async def damaged() -> Scene:
    """Entries 2 to 6 of a ledger are in one chunk of an entry log, in which a byte is wrong."""
    scene = Scene()
    node = await scene.start()
    await node.add(LEDGER, KEY, run_of(LEDGER, *range(2, 2 + ENTRIES)))
    await scene.close()
    files, frame = scene.disk.files(), sealed(LEDGER, 3)
    [path] = [each for each in files if each.startswith("entries/") and frame in files[each]]
    scene.disk.rot(path, files[path].find(frame))
    await scene.start()
    return scene


@pytest.mark.parametrize(("first", "last"), [(2, 2), (3, 3), (4, 4), (6, 6), (3, 6)])
def test_damage_is_told_of_the_entry_that_was_asked_for(first: int, last: int) -> None:
    """A reader counts an answer about another entry as none, and never learns that its entry is
    lost (docs/protocol.md, section 6, gaps).
    """

    async def main() -> None:
        scene = await damaged()
        with pytest.raises(CorruptEntryError) as told:
            await scene.node.read(LEDGER, first, last)
        assert told.value.entry == first
        await scene.close()

    drive(main())


def test_entries_before_a_damaged_chunk_are_denied_and_not_damaged() -> None:
    async def main() -> None:
        scene = await damaged()
        with pytest.raises(NoSuchEntryError):
            await scene.node.read(LEDGER, 0, 1)
        with pytest.raises(CorruptEntryError) as told:
            await scene.node.read(LEDGER, 0, 6)
        assert told.value.entry == 2
        await scene.close()

    drive(main())


@pytest.mark.parametrize("payload", [None, b"other"])
def test_an_entry_is_not_replaced_while_the_disk_fails_to_read_it(
    payload: bytes | None,
) -> None:
    """The copy is sound, and the next read returns it (B12)."""

    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        held = run_of(LEDGER, *range(ENTRIES))
        await node.add(LEDGER, KEY, held)
        await scene.close()
        node = await scene.start()
        scene.disk.faults.read_error = "entries"
        with pytest.raises(CorruptEntryError, match="cannot be read"):
            await node.add(LEDGER, KEY, run_of(LEDGER, 3, payload=payload))
        scene.disk.faults.read_error = None
        assert await node.read(LEDGER, 0, ENTRIES) == held
        await scene.close()

    drive(main())


def test_an_add_that_meets_a_damaged_chunk_ends() -> None:
    """The bookie compares what it is sent with what it holds, and passes over the damage."""

    async def main() -> None:
        scene = await damaged()
        async with asyncio.timeout(20):
            await scene.node.add(LEDGER, KEY, run_of(LEDGER, 4, 5))
        with pytest.raises(CorruptEntryError, match="entry 4"):  # until the scrub was there
            await scene.node.read(LEDGER, 4, 5)
        await scene.close()

    drive(main())
