"""An Iceberg table of a log whose bookies forgot the end that they were told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quire.sync
from quire.entry import NO_ENTRY
from quire.errors import TableError, UnreadableError
from quire.ledger.options import LedgerOptions
from quire.sync import SyncLog
from quire.table import update
from quire.testing import MemoryCluster
from tests.table.lake import Lake


class Ends:
    """The ends that the bookies of a cluster were told, which a power cut of all takes away.

    The ends in entries stay.
    """

    def __init__(self, cluster: MemoryCluster) -> None:
        bookies = cluster._bookies
        self._ledgers = [each for bookie in bookies for each in bookie.ledgers.values()]
        self._told = [(each.lac_packet, each.packet_lac) for each in self._ledgers]

    def forget(self) -> None:
        for ledger in self._ledgers:
            ledger.lac_packet, ledger.packet_lac = None, NO_ENTRY

    def remember(self) -> None:
        for ledger, told in zip(self._ledgers, self._told, strict=True):
            ledger.lac_packet, ledger.packet_lac = told


@pytest.fixture
def cluster() -> Iterator[MemoryCluster]:
    with MemoryCluster() as made:
        yield made


@pytest.fixture
def lake(cluster: MemoryCluster, tmp_path: Path) -> Iterator[Lake]:
    patience = LedgerOptions(request_timeout=0.3)
    with quire.sync.connect(cluster.store_uri, options=patience) as client:
        yield Lake(client, tmp_path)


def append_batches(lake: Lake, log: SyncLog, batches: int) -> None:
    """Append batches of four records, and wait until their end is announced."""
    for number in range(batches):
        log.append_many([b"%d" % each for each in range(4 * number, 4 * number + 4)])
    deadline = time.monotonic() + 10
    while lake.client.log_end("orders").offset < 4 * batches:
        assert time.monotonic() < deadline


@pytest.mark.parametrize("batches", [1, 3])
def test_a_log_whose_end_was_forgotten_has_lost_nothing(
    cluster: MemoryCluster, lake: Lake, batches: int
) -> None:
    log = lake.client.open_log("orders")
    append_batches(lake, log, batches)
    assert lake.update().end == 4 * batches
    log.abandon()
    Ends(cluster).forget()
    assert lake.client.log_end("orders").offset < 4 * batches
    with pytest.raises(UnreadableError, match="to recover it"):
        lake.update()
    assert sorted(lake.numbers()) == list(range(4 * batches))
    lake.client.recover_log("orders")
    assert lake.update().appended == 0
    assert sorted(lake.numbers()) == list(range(4 * batches))


@pytest.mark.parametrize("looks", [2, 1_000_000])
@pytest.mark.parametrize("batches", [1, 3])
def test_an_end_that_the_next_looks_do_not_see_is_no_trim(
    cluster: MemoryCluster, lake: Lake, monkeypatch: pytest.MonkeyPatch, batches: int, looks: int
) -> None:
    """After a power cut the living writer told one bookie its end again. A look hears two of three:
    that the end is known in one look does not say what the next looks see.
    """
    end, extent, left = update.ScannedLog.end, update.ScannedLog.extent, 0

    async def end_heard(log: update.ScannedLog, *, linearizable: bool) -> Any:
        nonlocal left
        ends.remember()
        found = await end(log, linearizable=linearizable)
        ends.forget()
        left = looks
        return found

    async def extent_heard(log: update.ScannedLog, log_id: str) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            ends.remember()
        return await extent(log, log_id)

    with lake.client.open_log("orders") as log:
        append_batches(lake, log, batches)
        assert lake.update().end == 4 * batches
        ends = Ends(cluster)
        ends.forget()
        monkeypatch.setattr(update.ScannedLog, "end", end_heard)
        monkeypatch.setattr(update.ScannedLog, "extent", extent_heard)
        if looks == 2:
            assert lake.update().appended == 0
        else:
            with pytest.raises(UnreadableError, match=r"have the writer append.*--recover"):
                lake.update()
        assert sorted(lake.numbers()) == list(range(4 * batches))


def test_a_scan_that_sees_less_than_the_look_before_it_is_repeated(
    cluster: MemoryCluster, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, scans = update.ScannedLog.rows, 0

    async def rows_heard(log: update.ScannedLog, start: int, stop: int) -> Any:
        nonlocal scans
        scans += 1
        ends.forget()
        try:
            return await rows(log, start, stop)
        finally:
            ends.remember()

    with lake.client.open_log("orders") as log:
        append_batches(lake, log, 1)
        ends = Ends(cluster)
        with monkeypatch.context() as patch:
            patch.setattr(update, "LOOKS_MAX", 3)
            patch.setattr(update.ScannedLog, "rows", rows_heard)
            with pytest.raises(TableError, match="3 times"):
                lake.update()
            assert scans == 3
        assert lake.update().appended == 4
    assert sorted(lake.numbers()) == list(range(4))
