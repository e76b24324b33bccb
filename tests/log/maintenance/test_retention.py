"""What retention trims, to the millisecond and the byte, and which ledgers stay to be deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from quire.errors import NoSuchLedgerError, StoreUnavailableError
from quire.ledger.catalog import LedgerCatalog
from quire.log.maintenance.retention import delete_doomed, retention_point
from quire.log.manifest.manifest import LogManifest, SegmentEnd
from quire.log.records.position import Position

TIMES = (1000, 3000, 7000)
BYTES = 100


def sealed() -> LogManifest:
    """Three sealed segments of 100 bytes each, and an open one."""
    manifest = LogManifest("log", "id", 0).take_over({}, 1, 0)
    for number, time in enumerate(TIMES, 1):
        manifest = manifest.seal_segment(number, SegmentEnd(0, 1, 1, BYTES, time))
        manifest = manifest.append_segment(number + 1, time)
    return manifest


@pytest.mark.parametrize(
    ("since_ms", "kept_from"),
    [(1000, 1), (1001, 2), (3000, 2), (3001, 3), (5000, 3), (5001, 4), (10**9, 4)],
)
def test_a_segment_goes_when_its_last_record_is_older_than_the_time(
    since_ms: int, kept_from: int
) -> None:
    """The step from the third segment to the fourth, four seconds, counts two."""
    point = retention_point(sealed(), since_ms, 5.0, None, roll_seconds=1.0)
    assert (point or Position(1, 0, 0)).segment + (point is not None) == kept_from


@pytest.mark.parametrize(
    ("bytes_max", "kept_from"), [(301, 1), (201, 1), (200, 2), (101, 2), (100, 3), (1, 3), (0, 4)]
)
def test_a_segment_goes_when_the_rest_holds_the_bytes(bytes_max: int, kept_from: int) -> None:
    point = retention_point(sealed(), 0, None, bytes_max, roll_seconds=1.0)
    assert (point or Position(1, 0, 0)).segment + (point is not None) == kept_from


class Catalog:
    """Ledger 2 cannot be deleted now, ledger 3 is gone already."""

    async def delete(self, ledger: int) -> None:
        if ledger == 2:
            raise StoreUnavailableError("faulty:", "refused by order of the test")
        if ledger == 3:
            raise NoSuchLedgerError(ledger)


def test_a_ledger_that_cannot_be_deleted_stays_listed() -> None:
    manifest = sealed().trim(Position(4, 0, 0))
    assert manifest.doomed == (1, 2, 3)

    async def edit(change: Callable[[LogManifest], LogManifest]) -> LogManifest:
        return change(manifest)

    catalog = cast("LedgerCatalog", Catalog())
    assert asyncio.run(delete_doomed(catalog, manifest, edit)).doomed == (2,)
