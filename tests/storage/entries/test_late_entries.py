"""An entry that arrives while a read waits for the disk is not denied afterwards (B3)."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import NoSuchEntryError
from quire.run import split_run
from tests.sim.disk import SimFile
from tests.storage.scene import KEY, Scene, run_of
from tests.support.virtual import virtually


class Gate:
    """Reads of files wait here while it is shut."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.reached = asyncio.Event()

    async def passed(self) -> None:
        if not self.is_open.is_set():
            self.reached.set()
            await self.is_open.wait()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate, read = Gate(), SimFile.read

    async def gated(self: SimFile, offset: int, size: int) -> bytes:
        await gate.passed()
        return await read(self, offset, size)

    monkeypatch.setattr(SimFile, "read", gated)
    return gate


async def begin_read(scene: Scene, gate: Gate) -> asyncio.Task[bytes]:
    """Return a read of entry 1 that waits for the disk, where entries 0 and 2 are."""
    await scene.start()
    await scene.node.add(7, KEY, run_of(7, 0, 2))
    await scene.close()
    await scene.start()
    gate.is_open.clear()
    reading = asyncio.ensure_future(scene.node.read(7, 1, 1))
    await gate.reached.wait()
    return reading


@pytest.mark.parametrize("is_flushed", [False, True])
def test_an_entry_written_back_during_a_read_is_found(gate: Gate, is_flushed: bool) -> None:
    async def main() -> None:
        scene = Scene()
        reading = await begin_read(scene, gate)
        await scene.node.add(7, KEY, run_of(7, 1), recovery=True)
        if is_flushed:
            await scene.node._engine.upkeep.flush()
        gate.is_open.set()
        assert [entry for entry, _ in split_run(await reading)] == [1]
        await scene.close()

    virtually(main)


def test_entries_outside_the_range_change_nothing(gate: Gate) -> None:
    async def main() -> None:
        scene = Scene()
        reading = await begin_read(scene, gate)
        await scene.node.add(7, KEY, run_of(7, 3))
        gate.is_open.set()
        with pytest.raises(NoSuchEntryError):
            await reading
        await scene.close()

    virtually(main)
