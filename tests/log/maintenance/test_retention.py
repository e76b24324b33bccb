"""What retention trims, to the millisecond and the byte, and which ledgers stay to be deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from quire.errors import NoSuchLedgerError, StoreUnavailableError
from quire.log.maintenance.doomed import delete_doomed
from quire.log.maintenance.retention import retention_point
from quire.log.manifest.ages import Reading
from quire.log.manifest.manifest import LogManifest, SegmentEnd
from quire.log.records.position import Position
from quire.log.segment_store.port import SegmentStore

TIMES = (1000, 3000, 7000)
BYTES = 100


def sealed() -> LogManifest:
    """Three sealed segments of 100 bytes each, and an open one. The log began at 0."""
    manifest = LogManifest("log", "id", 0).take_over({}, 1, 0).aged(at(0))
    for number, time in enumerate(TIMES, 1):
        manifest = manifest.seal_segment(number, SegmentEnd(0, 1, 1, BYTES, time))
        manifest = manifest.append_segment(number + 1, time).aged(at(time))
    return manifest


def at(time: int) -> Reading:
    """What right clocks say."""
    return Reading(50_000 + time, "machine", time)


@pytest.mark.parametrize(
    ("now", "kept_from"),
    [(7000, 1), (7001, 2), (9000, 2), (9001, 3), (13_000, 3), (13_001, 4), (10**9, 4)],
)
def test_a_segment_goes_when_it_was_sealed_longer_ago_than_the_time(
    now: int, kept_from: int
) -> None:
    point = retention_point(sealed().aged(at(now)), 6.0, None)
    assert (point or Position(1, 0, 0)).segment + (point is not None) == kept_from


@pytest.mark.parametrize(
    ("bytes_max", "kept_from"), [(301, 1), (201, 1), (200, 2), (101, 2), (100, 3), (1, 3), (0, 4)]
)
def test_a_segment_goes_when_the_rest_holds_the_bytes(bytes_max: int, kept_from: int) -> None:
    point = retention_point(sealed(), None, bytes_max)
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

    catalog = cast("SegmentStore", Catalog())
    assert asyncio.run(delete_doomed(catalog, manifest, edit)).doomed == (2,)
