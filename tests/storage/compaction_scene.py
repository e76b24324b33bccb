"""A bookie with four ledgers in several files, for tests of collection and compaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from quire.entry import LedgerId
from quire.errors import LedgerFencedError, NoSuchLedgerError, QuireError, UnauthorizedError
from quire.storage.entries.entry_log import entries_path
from quire.storage.maintenance.garbage import Collector
from tests.storage.scene import KEY, SMALL, Scene, run_of

FAST = replace(SMALL, upkeep_bytes_per_second=1 << 40)
PAYLOAD = bytes(800)


class Answers:
    """A store that says what the test wants."""

    def __init__(self, *deleted: LedgerId) -> None:
        self.gone: list[LedgerId] = list(deleted)
        self.error: QuireError | None = None
        self.asked: list[list[LedgerId]] = []

    async def deleted(self, ledgers: Sequence[LedgerId]) -> list[LedgerId]:
        self.asked.append(list(ledgers))
        if self.error is not None:
            raise self.error
        return [ledger for ledger in ledgers if ledger in self.gone]


async def fill(scene: Scene, lives: int = 3) -> dict[int, dict[int, bytes]]:
    """Write ledgers 1 to 4 in several files, with overlays; return what is held."""
    for life in range(lives):
        node = await scene.start()
        for entry in range(10 * life, 10 * life + 12):
            for ledger in (1, 2, 3, 4):
                run = run_of(ledger, entry, payload=PAYLOAD + b"%d" % life)
                await node.add(ledger, KEY, run, recovery=True)
        if life == 1:
            await node.read_tail(2, fence_key=KEY)
            await node.read_tail(9, fence_key=KEY)
        await scene.close()
    await scene.start()
    return {ledger: await scene.entries(ledger) for ledger in (1, 2, 3, 4)}


def collector_of(scene: Scene, answers: Answers) -> Collector:
    return scene.node.collector(answers)


def entries_bytes(scene: Scene) -> int:
    files = scene.disk.files()
    return sum(len(data) for path, data in files.items() if path.endswith(".entries"))


async def check(scene: Scene, held: dict[int, dict[int, bytes]], *gone: int) -> None:
    for ledger, entries in held.items():
        if ledger in gone:
            with pytest.raises(NoSuchLedgerError):
                await scene.node.read(ledger, 0, 0)
        else:
            assert await scene.entries(ledger) == entries
            with pytest.raises(UnauthorizedError):
                await scene.node.add(ledger, b"other", run_of(ledger, 99))
    for ledger in (2, 9):
        with pytest.raises(LedgerFencedError):
            await scene.node.add(ledger, KEY, run_of(ledger, 99))


def entry_logs(scene: Scene) -> set[str]:
    return {path for path in scene.disk.files() if path.endswith(".entries")}


def listed(scene: Scene) -> set[str]:
    return {entries_path(number) for number in scene.node._storage.checkpoint.files}
