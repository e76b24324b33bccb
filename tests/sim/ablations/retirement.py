"""Safeguards of retired ids: what a bookie keeps of the ledgers it dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.repair import census
from quire.storage.entries import ledger_storage
from quire.storage.entries.doubtful import Horizon
from quire.storage.entries.ledger_storage import LedgerStorage
from quire.storage.entries.retired_file import NOTHING
from quire.storage.offline import salvage
from tests.sim import operator
from tests.sim.ablations.patch import Patch


def keep_no_ids() -> list[Patch]:
    async def retire(self: Any, ledgers: Sequence[int]) -> None:
        async with self._turn:
            for ledger in ledgers:
                self._drop(ledger)

    return [(LedgerStorage, "retire", retire)]


def keep_ids_in_memory() -> list[Patch]:
    async def keep(self: Any, file: Any) -> None:
        self._retired = file._replace(generation=self._retired.generation)

    return [(LedgerStorage, "_keep", keep)]


def write_ids_after_the_drop() -> list[Patch]:
    """Rows and chunks are garbage, and compaction may remove them, before the file is durable."""

    async def retire(self: Any, ledgers: Sequence[int]) -> None:
        ids = self.retired.joined((each, each) for each in ledgers)
        async with self._turn:
            for ledger in ledgers:
                self._drop(ledger)
        await self.flush(lambda: self._position)
        async with self._turn:
            await self._keep(self._retired.next(ids=ids))

    return [(LedgerStorage, "retire", retire)]


def forget_ids_in_a_repair() -> list[Patch]:
    async def nothing(*_: Any) -> Any:
        return NOTHING, []

    whole = census.count

    async def count(store: Any, bookie: str, before: float) -> Any:
        doubts, horizon = await whole(store, bookie, before)
        clean = census.gaps([each.ledger for each in doubts], 0, horizon.below)
        return doubts, Horizon.around(clean, horizon.below)

    return [(salvage, "read_retired", nothing), (operator, "count", count)]


def start_without_ids() -> list[Patch]:
    async def load(*_: Any) -> Any:
        return NOTHING

    return [(ledger_storage, "load_retired", load)]
