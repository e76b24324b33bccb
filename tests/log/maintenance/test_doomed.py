"""What left a log is deleted from its oldest ledger on, so what is left of it has no hole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from quire.errors import StoreUnavailableError
from quire.log.maintenance.doomed import delete_doomed, delete_singles
from quire.log.manifest.manifest import LogManifest
from quire.log.records.position import Position
from quire.log.segment_store.port import SegmentStore
from tests.log.manifest.paging import Pair, page_rows
from tests.support.seeds import seeds


class PowerCutError(Exception):
    """The program ends here."""


class Catalog:
    """Deletes so many ledgers, and then the power fails."""

    def __init__(self, ledgers: set[int], deletions: int) -> None:
        self.left = ledgers
        self._deletions = deletions

    async def delete(self, ledger: int) -> None:
        if not self._deletions:
            raise PowerCutError
        self._deletions -= 1
        self.left.discard(ledger)


def trimmed(seed: int) -> tuple[Pair, list[int]]:
    """Return a log that was trimmed twice, into pages and rows, and all its ledgers before that."""
    pair = Pair(seed)
    pair.take_over()
    while len(pair.plain.segments) < 24:
        pair.roll()
    ledgers = [each.ledger for each in pair.plain.segments]
    for number in sorted(pair.rng.sample(range(2, 23), 2)):
        point = Position(pair.plain.segments[0].number + number // 2, 0, 0)
        pair.edit(lambda now, point=point: now.trim(point))  # type: ignore[misc]
    return pair, ledgers


async def delete(pair: Pair, catalog: Catalog, work: Callable[..., Awaitable[LogManifest]]) -> None:
    async def edit(change: Callable[[LogManifest], LogManifest]) -> LogManifest:
        pair.paged = change(pair.paged)
        return pair.paged

    await work(cast("SegmentStore", catalog), pair.paged, edit)


def check_left(ledgers: list[int], catalog: Catalog) -> None:
    left = [each for each in ledgers if each in catalog.left]
    assert left == ledgers[len(ledgers) - len(left) :]


@pytest.mark.parametrize("seed", seeds(20, usual=6))
def test_wherever_a_deletion_is_cut_the_youngest_ledgers_are_left(seed: int) -> None:
    with page_rows(2):
        deletions, is_done = 0, False
        while not is_done:
            pair, ledgers = trimmed(seed)
            catalog = Catalog(set(ledgers), deletions)
            try:
                asyncio.run(delete(pair, catalog, delete_doomed))
                is_done = True
            except PowerCutError:
                deletions += 1
            assert [each for each in ledgers if each in catalog.left] == ledgers[
                -len(catalog.left) :
            ]
        assert not pair.paged.doomed
        assert not pair.paged.doomed_pages
        assert deletions > 2


@pytest.mark.parametrize("seed", seeds(20, usual=6))
def test_a_close_deletes_no_ledger_that_is_younger_than_a_page(seed: int) -> None:
    with page_rows(2):
        pair, ledgers = trimmed(seed)
        catalog = Catalog(set(ledgers), 1000)
        asyncio.run(delete(pair, catalog, delete_singles))
        check_left(ledgers, catalog)


async def test_what_cannot_be_noted_stays_listed() -> None:
    """The ledgers are gone, and a close that came so far has done its work."""
    with page_rows(2):
        pair, ledgers = trimmed(3)
        catalog = Catalog(set(ledgers), 1000)
        listed = pair.paged.doomed
        assert listed

        async def edit(change: Callable[[LogManifest], LogManifest]) -> LogManifest:
            raise StoreUnavailableError("memory:", "connection refused")

        found = await delete_singles(cast("SegmentStore", catalog), pair.paged, edit)
        assert found.doomed == listed
        check_left(ledgers, catalog)
        await delete(pair, catalog, delete_doomed)
        assert not pair.paged.doomed
