"""The outbox: groups stay whole and in order, parcels stay within bounds, offsets are dense."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quire.log.leader.accumulator import Outbox, Parcel
from quire.log.leader.outcome import SINGLE
from quire.log.manifest.options import LogOptions
from quire.log.records.batch import decode_batch
from quire.log.records.position import Position


def _outbox(batch_bytes: int = 100, batch_records: int = 10) -> Outbox:
    return Outbox(
        epoch=3,
        next_offset=50,
        timestamp_ms=1000,
        options=LogOptions(batch_bytes=batch_bytes, batch_records=batch_records),
    )


def _put(outbox: Outbox, group: list[bytes], *, single: bool) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    outbox.put(group, sum(map(len, group)), future, SINGLE if single else len(group))
    return future


groups = st.lists(st.lists(st.binary(max_size=60), min_size=1, max_size=15), max_size=12)


@settings(max_examples=40, deadline=None)
@given(groups)
def test_parcels_are_whole_groups_in_order_within_bounds(offered: list[list[bytes]]) -> None:
    async def main() -> None:
        outbox = _outbox()
        futures = [_put(outbox, group, single=False) for group in offered]
        parcels: list[Parcel] = []
        while outbox:
            parcels.append(outbox.cut(2000))
        batches = [decode_batch(each.payload, 1, 0) for each in parcels]
        flat = [record for group in offered for record in group]
        assert [record for batch in batches for record in batch.payloads()] == flat
        offset = 50
        for parcel, batch in zip(parcels, batches, strict=True):
            assert parcel.first_offset == batch.header.first_offset == offset
            offset += parcel.records
            assert (batch.header.epoch, batch.header.timestamp_ms) == (3, 2000)
            if len(parcel.waiting) > 1:
                assert parcel.records <= 10
                assert parcel.bytes <= 100
        assert outbox.next_offset == offset
        for entry, parcel in enumerate(parcels):
            parcel.entry = entry
            parcel.confirm(7)
        places = [place for future in futures for place in future.result()]
        assert [each.offset for each in places] == list(range(50, offset))
        positions = [each.position for each in places]
        assert positions == sorted(set(positions))
        assert [len(each.result()) for each in futures] == [len(group) for group in offered]
        assert len({each.entry for each in positions}) == len(parcels)

    asyncio.run(main())


def test_a_single_record_gets_a_position_and_a_cancelled_one_keeps_its_slot() -> None:
    async def main() -> None:
        outbox = _outbox()
        one, two, three = (_put(outbox, [b"x"], single=True) for _ in range(3))
        two.cancel()
        parcel = outbox.cut(0)
        parcel.entry = 4
        parcel.confirm(7)
        assert (one.result(), three.result()) == ((Position(7, 4, 0), 50), (Position(7, 4, 2), 52))
        assert parcel.timestamp_ms == 1000, "time does not run backward"

    asyncio.run(main())


def test_a_full_batch_is_known_and_dropping_empties_it() -> None:
    async def main() -> None:
        outbox = _outbox(batch_records=3)
        futures = [_put(outbox, [b"x"], single=True) for _ in range(2)]
        assert [len(outbox), outbox.has_full_batch] == [2, False]
        futures.append(_put(outbox, [b"x"], single=True))
        assert [len(outbox), outbox.has_full_batch] == [3, True]
        assert outbox.drop_all() == futures
        assert len(outbox) == 0

    asyncio.run(main())


def test_a_batch_that_exceeds_its_bounds_is_a_defect() -> None:
    """Groups that hold more records than they count would make a larger batch than was agreed."""

    async def main() -> None:
        outbox = _outbox(batch_records=10)
        for _ in range(2):
            outbox.put([b"x"] * 20, 20, asyncio.get_running_loop().create_future(), 2)
        with pytest.raises(AssertionError, match="40 bytes in 40 records exceeds"):
            outbox.cut(0)

    asyncio.run(main())
