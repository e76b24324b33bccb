"""Damage that somebody meets is looked at there and then, weeks before the scrub would come by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from quire.errors import CorruptEntryError
from quire.storage.maintenance.replicas_port import Copies
from tests.storage.maintenance.fakes import FakeCopies, all_to
from tests.storage.scene import KEY, SMALL, Scene, drive, eventually, run_of

FRAMES_START = 54
"""Where the first chunk of an entry log begins."""


async def stored(suspect_seconds: float = 60.0) -> Scene:
    """Return a bookie with one entry log for each of three entries of ledgers 7 and 8."""
    scene = Scene(options=replace(SMALL, suspect_seconds=suspect_seconds))
    for entry in range(3):
        await scene.start()
        for ledger in (7, 8):
            await scene.node.add(ledger, KEY, run_of(ledger, entry, payload=bytes(3000)))
        await scene.close()
    await scene.start()
    return scene


def logs(scene: Scene) -> list[str]:
    return [path for path in sorted(scene.disk.files()) if path.endswith(".entries")]


def rot(scene: Scene, entry: int, ledger: int) -> None:
    """Damage a ledger's chunk in the log that has an entry: 7's is the first, 8's behind it."""
    path = logs(scene)[entry]
    scene.disk.rot(path, FRAMES_START + 100 + (3100 if ledger == 8 else 0))


Ask = Callable[[Scene], Awaitable[object]]


async def read(scene: Scene) -> object:
    return await scene.node.read(7, 1, 1)


async def read_from_before(scene: Scene) -> object:
    """An answer ends before damage; who goes on from there meets it."""
    await scene.node.read(7, 0, 2)
    return await scene.node.read(7, 1, 2)


async def fencing_read(scene: Scene) -> object:
    return await scene.node.read(7, 1, 1, fence_key=KEY)


@pytest.mark.parametrize("ask", [read, read_from_before, fencing_read])
def test_a_read_that_meets_damage_has_it_repaired(ask: Ask) -> None:
    async def main() -> None:
        scene = await stored()
        old = logs(scene)
        rot(scene, 1, 7)
        copies = FakeCopies({7: all_to(2), 8: all_to(2)})
        scrubber = scene.node.scrubber(copies.open)
        scrubber.start()
        with pytest.raises(CorruptEntryError):
            await ask(scene)
        await eventually(lambda: scrubber.counts.repaired == 1)
        assert scrubber.counts.rounds == 0
        assert scrubber.damage == []
        assert copies.asked == [(7, 1)]
        assert old[1] not in logs(scene)
        await scrubber.close()
        for _ in range(2):
            assert (await scene.entries(7)).keys() == {0, 1, 2}
            assert (await scene.entries(8)).keys() == {0, 1, 2}
            await scene.cut()  # what was put in its place is durable
            await scene.start()
        await scene.close()

    drive(main())


def test_the_last_entry_is_repaired_when_its_ledgers_end_is_asked_for() -> None:
    async def main() -> None:
        scene = await stored()
        rot(scene, 2, 7)
        scrubber = scene.node.scrubber(FakeCopies({7: all_to(2)}).open)
        scrubber.start()
        with pytest.raises(CorruptEntryError):
            await scene.node.read_tail(7)
        await eventually(lambda: scrubber.counts.repaired == 1)
        assert (await scene.node.read_tail(7)).frame is not None
        await scrubber.close()
        await scene.close()

    drive(main())


def test_what_cannot_be_repaired_is_left_alone_for_a_while() -> None:
    async def main() -> None:
        scene = await stored()
        rot(scene, 1, 7)
        rot(scene, 2, 8)
        copies = FakeCopies({7: all_to(2), 8: all_to(2)}, gone={1})
        scrubber = scene.node.scrubber(copies.open)
        scrubber.start()
        for _ in range(20):
            with pytest.raises(CorruptEntryError):
                await scene.node.read(7, 1, 1)
            await eventually(lambda: copies.asked == [(7, 1)])
        with pytest.raises(CorruptEntryError):
            await scene.node.read(8, 2, 2)
        await eventually(lambda: scrubber.counts.repaired == 1)
        assert copies.asked == [(7, 1), (8, 2)], "the second is looked at behind the first"
        (damage,) = scrubber.damage
        assert (damage.ledger, damage.first) == (7, 1)
        await scrubber.close()
        await scene.close()

    drive(main())


def test_what_could_not_be_repaired_is_tried_again_later() -> None:
    async def main() -> None:
        scene = await stored(suspect_seconds=0.001)
        rot(scene, 1, 7)
        copies = FakeCopies({7: all_to(2)}, gone={1})
        scrubber = scene.node.scrubber(copies.open)
        scrubber.start()
        for attempt in range(1, 4):
            if attempt == 3:
                copies.gone.clear()
            while len(copies.asked) < attempt:
                with pytest.raises(CorruptEntryError):
                    await scene.node.read(7, 1, 1)
                await eventually(lambda: not scrubber._suspects)
        await eventually(lambda: scrubber.counts.repaired == 1)
        assert scrubber.damage == []
        assert (await scene.entries(7)).keys() == {0, 1, 2}
        await scrubber.close()
        await scene.close()

    drive(main())


def test_without_others_to_ask_damage_is_reported_and_left() -> None:
    async def main() -> None:
        scene = await stored()
        rot(scene, 1, 7)
        scrubber = scene.node.scrubber()
        scrubber.start()
        with pytest.raises(CorruptEntryError):
            await scene.node.read(7, 1, 1)
        await eventually(lambda: len(scrubber.damage) == 1)
        await scrubber.close()
        await scene.close()

    drive(main())


@dataclass
class SlowCopies(FakeCopies):
    """Others who answer when they are let."""

    answer: asyncio.Event = field(default_factory=asyncio.Event)
    opened: int = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Copies]:
        self.opened += 1
        await self.answer.wait()
        yield self


def test_a_round_and_somebody_who_meets_the_same_damage_repair_it_once() -> None:
    async def main() -> None:
        scene = await stored()
        rot(scene, 1, 7)
        copies = SlowCopies({7: all_to(2)})
        scrubber = scene.node.scrubber(copies.open)
        scrubber.start()
        scrubbing = asyncio.create_task(scrubber.round())
        await eventually(lambda: copies.opened == 1)
        with pytest.raises(CorruptEntryError):
            await scene.node.read(7, 1, 1)
        await eventually(lambda: scrubber.counts.damaged == 2)
        await asyncio.sleep(0.01)  # time to ask, for whoever does not wait for his turn
        copies.answer.set()
        await scrubbing
        await eventually(lambda: not scrubber._suspects)
        assert copies.asked == [(7, 1)]
        assert scrubber.damage == []
        assert (await scene.entries(7)).keys() == {0, 1, 2}
        assert scene.fatal == []
        await scrubber.close()
        await scene.close()

    drive(main())
