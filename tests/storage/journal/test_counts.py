"""What the journal counts: batches, entries, bytes, and a percentile of its writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.disk.local import LocalDisk
from tests.contract.bookie.subjects import node_on
from tests.wire.link import KEY, run_of


@pytest.mark.real_time
async def test_entries_and_bytes_are_those_of_the_batches(tmp_path: Path) -> None:
    async with node_on(LocalDisk(tmp_path), lambda: None) as subject:
        before = (await subject.bookie.info()).counters
        for entry in range(3):
            await subject.bookie.add(7, KEY, run_of(entry, 100))
        now = (await subject.bookie.info()).counters
    assert now["journal_entries"] - before["journal_entries"] == 3
    assert now["journal_batches"] - before["journal_batches"] >= 3
    added = now["journal_bytes"] - before["journal_bytes"]
    assert added >= 3 * BLOCK_BYTES
    assert added % BLOCK_BYTES == 0
    assert now["journal_waiting"] == 0
    assert 0 < now["journal_p99_microseconds"] <= now["journal_microseconds"]
