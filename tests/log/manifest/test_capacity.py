"""A manifest that is full: a leader goes on, and the log can be opened, trimmed and sealed."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from quire.errors import LogFullError
from quire.log.leader.log import Log
from quire.log.manifest import capacity
from quire.log.manifest.capacity import check_growth, check_takeover, manifest_bytes, warning
from quire.log.manifest.manifest import LogManifest, Segment, SegmentEnd
from quire.log.manifest.options import LogOptions
from quire.log.records.position import Position
from quire.metastore.layout import VALUE_BYTES_MAX
from tests.log.offloading import write_log
from tests.log.parts import ingest, write_part
from tests.support.log_cluster import NAME, LogCluster, numbered, run


def with_segments(count: int) -> LogManifest:
    ends = SegmentEnd(4000, 100, 400_000, 268_435_456, 1_790_000_000_000, -1)
    segments = tuple(
        Segment(each, 1_000_000 + each, 3, 1_790_000_000_000, 400_000 * (each - 1), ends)
        for each in range(1, count + 1)
    )
    return LogManifest(NAME, "id", 1, epoch=3, rows=segments, next_segment=count + 1)


def test_the_limits_leave_space_for_what_must_always_work() -> None:
    row = manifest_bytes(with_segments(101)) - manifest_bytes(with_segments(100))
    assert row < capacity.PART_BYTES
    assert (capacity.TAKEOVER_BYTES_MAX - capacity.GROWTH_BYTES_MAX) // (row + 20) >= 500
    assert 100 * row <= VALUE_BYTES_MAX - capacity.TAKEOVER_BYTES_MAX
    half = with_segments(capacity.WARNING_BYTES // row + 1)
    assert "roll_bytes" in (warning(half) or "")
    assert warning(with_segments(100)) is None
    full = with_segments(capacity.GROWTH_BYTES_MAX // row + 1)
    with pytest.raises(LogFullError, match="quire log trim"):
        check_growth(full)
    check_takeover(full)
    with pytest.raises(LogFullError):
        check_takeover(with_segments(capacity.TAKEOVER_BYTES_MAX // row + 1))


def test_a_leader_of_a_full_log_goes_on_in_its_segment_until_the_log_is_trimmed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(capacity, "WARNING_BYTES", 500)
    monkeypatch.setattr(capacity, "GROWTH_BYTES_MAX", 900)
    caplog.set_level(logging.WARNING)

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                number = await _fill(log)
                assert manifest_bytes(await client.manifest()) < 1000
                assert "roll_bytes" in caplog.text, "it was said in time"
                await log.append(b"it goes on in its segment")
                full = len((await client.manifest()).segments)
                assert full > 5
                await client.logs.trim(NAME, Position(full - 1, 0, 0))
                await log.roll()
            assert len((await client.manifest()).segments) <= 4
            seen = await client.payloads(Position(full - 1, 0, 0))
            assert seen == [b"%d" % (number - 1), b"%d" % number, b"it goes on in its segment"]

    run(main)


async def _fill(log: Log) -> int:
    """Append and roll until the manifest is full; return the number of the last record."""
    for number in range(100):
        await log.append(b"%d" % number)
        try:
            await log.roll()
        except LogFullError:
            return number
    pytest.fail("the manifest was never full")


def test_a_log_beyond_all_limits_is_refused_before_its_leader_is_fenced_and_can_be_trimmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, rival = cluster.new_client(), cluster.new_client()
            log = await client.open()
            for record in numbered(0, 9):
                await log.append(record)
                await log.roll()
            size = manifest_bytes(await client.manifest())
            monkeypatch.setattr(capacity, "GROWTH_BYTES_MAX", size - 1)
            monkeypatch.setattr(capacity, "TAKEOVER_BYTES_MAX", size - 1)
            with pytest.raises(LogFullError):
                await rival.open()
            with pytest.raises(LogFullError):
                await rival.logs.ingest(NAME).create_part("job", LogOptions())
            await log.append(b"9")
            assert not log.is_deposed
            await rival.logs.trim(NAME, Position(9, 0, 0))
            async with await rival.open() as later:
                await later.append(b"10")
            assert [*await rival.payloads(Position(10, 0, 0))] == [b"9", b"10"]
            await rival.logs.delete(NAME)

    run(main)


def test_an_ingest_is_refused_before_the_leader_is_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await log.append(b"0")
            other = cluster.new_client()
            part = await write_part(other, "job", 0, 5)
            monkeypatch.setattr(capacity, "GROWTH_BYTES_MAX", 100)
            with pytest.raises(LogFullError):
                await ingest(other, [part])
            await log.append(b"1")
            await log.close()

    run(main)


def test_an_offload_is_refused_and_the_log_stays_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            work = client.logs.offload(NAME)
            with monkeypatch.context() as patch:
                patch.setattr(capacity, "GROWTH_BYTES_MAX", 100)
                with pytest.raises(LogFullError, match="quire log trim"):
                    await work.begin(str(tmp_path / "refused"))
            tier, segments = await work.begin(str(tmp_path / "cold"))
            made = {each.number: await work.write(each, tier) for each in segments}
            with monkeypatch.context() as patch:
                patch.setattr(capacity, "GROWTH_BYTES_MAX", 100)
                with pytest.raises(LogFullError, match="quire log trim"):
                    await work.commit(made)
            manifest = await client.manifest()
            assert manifest.tiers == (tier,)
            assert [each.cold for each in manifest.segments] == [None] * len(segments)
            assert await client.read() == records
            await work.commit(made)
            await work.release()
            assert await client.read() == records

    asyncio.run(main())
