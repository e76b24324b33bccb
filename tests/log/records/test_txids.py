"""Txids: refused when they go back, kept over take-overs, found without a scan."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import (
    CorruptEntryError,
    EntryTooLargeError,
    InvalidRequestError,
    NoSuchLogError,
    TxidOrderError,
)
from quire.log.leader.log import Log
from quire.log.manifest.manifest import Job
from quire.log.reading.segment_reader import SegmentReader
from quire.log.records.batch import BATCH_BYTES_MAX, decode_batch, encode_batch
from quire.log.records.keyring import Keyring
from quire.log.records.position import LATEST, Appended, AtTxid, Position
from quire.log.records.producers import ProducerSequence, encode_columns
from quire.log.records.txids import (
    TXIDS,
    Numbering,
    decode_txids,
    first_slot,
    of_slots,
)
from tests.log.parts import write_part
from tests.support.log_cluster import NAME, Client, LogCluster, numbered, run

ids = st.lists(st.tuples(st.integers(1, 4), st.none() | st.integers(0, 2**63 - 1)), min_size=1)


@given(ids, st.integers(0, 2**63 - 1))
def test_the_ids_of_a_batch_come_back(groups: list[tuple[int, int | None]], wanted: int) -> None:
    given_ids = iter(sorted(each for _, each in groups if each is not None))
    groups = [(count, None if each is None else next(given_ids)) for count, each in groups]
    expected: list[int | None] = []
    last: int | None = None
    for count, each in groups:
        last = last if each is None else each
        expected += [last] * count
    column = Numbering().column(groups)
    found = decode_txids(column, len(expected)) if column else ()
    assert of_slots(found, range(len(expected))) == expected
    behind = [slot for slot, each in enumerate(expected) if each is not None and each >= wanted]
    assert first_slot(found, len(expected), wanted) == (behind or [len(expected)])[0]


@pytest.mark.parametrize(
    "column", [b"", bytes(7), bytes(8 * 3), b"\xff" * 7 + b"\x80", bytes([1]) + bytes(15)]
)
def test_a_column_that_makes_no_sense_is_refused(column: bytes) -> None:
    columns = encode_columns({TXIDS: column, 200: b"unknown"})
    batch = encode_batch([b"a", b"b"], first_offset=0, epoch=1, timestamp_ms=0, columns=columns)
    with pytest.raises(CorruptEntryError, match="txids"):
        decode_batch(batch, 7, 3)


async def txids(client: Client, start: Any = None) -> list[tuple[int | None, bytes]]:
    found = await (client.read() if start is None else client.read(start))
    return [(record.txid, record.payload) for record in found]


async def test_an_id_never_goes_back_and_a_record_without_one_has_that_before_it(
    cluster: LogCluster,
) -> None:
    client = cluster.new_client()
    log = await client.open(batch_records=2)
    await log.append(b"a")
    await log.append(b"b", txid=5)
    await log.append(b"c")
    await log.append_many([b"d", b"e", b"f"], txid=5)
    with pytest.raises(TxidOrderError, match=r"txid 4 .* txid 5 ") as error:
        await log.append(b"never", txid=4)
    refused = error.value
    assert (refused.log, refused.txid, refused.last) == (NAME, 4, 5)
    await log.append(b"g", txid=9, producer_sequence=ProducerSequence("p", 1))
    await log.append(
        b"g", txid=4, producer_sequence=ProducerSequence("p", 1)
    )  # the one that is there
    for wrong in (-1, 2**63, True, 1.0):
        with pytest.raises(InvalidRequestError, match="txid"):
            await log.append(b"never", txid=wrong)  # type: ignore[arg-type]
    await log.close()
    ids = [None, 5, 5, 5, 5, 5, 9]
    payloads = [b"%c" % each for each in b"abcdefg"]
    assert await txids(client) == list(zip(ids, payloads, strict=True))


async def test_order_is_decided_when_a_record_is_queued(cluster: LogCluster) -> None:
    log = await cluster.new_client().open(records_in_flight_max=2)
    appends = [asyncio.create_task(log.append(b"x", txid=each)) for each in (3, 3, 8, 7, 9)]
    done = await asyncio.gather(*appends, return_exceptions=True)
    assert [type(each) for each in done] == [Appended] * 3 + [
        TxidOrderError, Appended
    ]  # fmt: skip
    await log.close()


@pytest.mark.parametrize("how", ["closed", "crashed", "trimmed away", "rolled"])
async def test_a_new_leader_knows_the_last_id(cluster: LogCluster, how: str) -> None:
    client = cluster.new_client()
    log = await client.open()
    await log.append(b"a", txid=7)
    last = await log.append(b"b")
    if how == "rolled":
        await log.roll()
    if how == "crashed":
        log.abandon()
    else:
        await log.close()
    if how == "trimmed away":
        await client.logs.trim(NAME, last.position.after)
        assert not (await client.manifest()).segments
    other = await cluster.new_client().open()
    with pytest.raises(TxidOrderError, match=r"txid 6 .* txid 7"):
        await other.append(b"never", txid=6)
    await other.append(b"c")
    await other.append(b"d", txid=8)
    await other.close()
    assert (await txids(client))[-2:] == [(7, b"c"), (8, b"d")]
    assert (await client.manifest()).last_txid == 8


async def fill(log: Log) -> None:
    """Records 0 … 299, one an entry, in three segments; record n has txid 10 · (n // 2)."""
    for number in range(300):
        await log.append(b"%d" % number, txid=number // 2 * 10)
        if number in (99, 199):
            await log.roll()


@pytest.mark.parametrize(
    ("wanted", "first"),
    [(0, 0), (1, 2), (10, 2), (490, 98), (491, 100), (995, 200), (1490, 298), (1491, 300)],
)
def test_a_reader_starts_at_a_transaction_without_a_scan(
    monkeypatch: pytest.MonkeyPatch, wanted: int, first: int
) -> None:
    looked: list[int] = []
    whole: Callable[..., Any] = SegmentReader.batch

    async def batch(self: SegmentReader, entry: int) -> Any:
        looked.append(entry)
        return await whole(self, entry)

    monkeypatch.setattr(SegmentReader, "batch", batch)

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(batch_records=1)
            await fill(log)
            await log.drain()
            await asyncio.sleep(0.1)  # until the last record is announced
            reader = await client.logs.read(NAME, AtTxid(wanted))
            async with reader:
                assert [each.payload async for each in reader] == numbered(first, 300 - first)
            assert len(looked) <= 8, "one segment, bisected"
            await log.trim(Position(2, 50, 0))
            reader = await client.logs.read(NAME, AtTxid(0))
            async with reader:
                assert (await anext(reader)).payload == b"150"
            await log.close()

    run(main)


async def test_a_follower_waits_for_the_transaction_it_starts_at(cluster: LogCluster) -> None:
    client = cluster.new_client()
    log = await client.open()
    await log.append(b"early", txid=1)
    reader = await client.logs.read(NAME, AtTxid(5), follow=True)
    async with reader:
        first = asyncio.create_task(anext(reader))
        await asyncio.sleep(1)
        await log.append_many([b"still early", b"x"], txid=4)
        await log.roll()
        await asyncio.sleep(1)
        futures = [await log.submit(b"y"), await log.submit(b"found", txid=6)]
        await asyncio.gather(*futures)
        assert (await first).payload == b"found"
    await log.close()
    with pytest.raises(InvalidRequestError, match="txid -3"):
        await client.logs.read(NAME, AtTxid(-3))


async def test_ingested_ledgers_have_the_id_in_front_of_them(cluster: LogCluster) -> None:
    client = cluster.new_client()
    log = await client.open()
    await log.append(b"a", txid=3)
    await log.close()
    part = await write_part(client, "job", 0, 4)
    await client.logs.ingest(NAME).ingest([part], Job("job", 0), remember=True)
    log = await client.open()
    with pytest.raises(TxidOrderError):
        await log.append(b"never", txid=2)
    await log.append(b"b", txid=4)
    await log.close()
    expected = [(3, b"a"), *((3, each) for each in numbered(0, 4)), (4, b"b")]
    assert await txids(client) == expected
    assert await txids(client, AtTxid(4)) == expected[-1:]
    await client.logs.trim(NAME, Position(2, 0, 0))
    assert await txids(client, AtTxid(1)) == expected[1:]


async def test_the_largest_record_still_fits_beside_an_id(cluster: LogCluster) -> None:
    client = cluster.new_client()
    log = await client.open()
    await log.append(b"x", txid=1)
    with pytest.raises(EntryTooLargeError) as error:
        await log.append(bytes(BATCH_BYTES_MAX), txid=1)
    largest = bytes(error.value.limit)
    futures = [await log.submit(largest), await log.submit(b"y", txid=2)]
    await asyncio.gather(*futures)
    await log.close()
    assert [len(each) for each in await client.payloads()] == [1, len(largest), 1]


@pytest.mark.parametrize("keyring", [None, Keyring({"k": bytes(32)}, current="k")])
async def test_the_last_id_is_told_whatever_was_trimmed_and_without_a_key(
    cluster: LogCluster, keyring: Keyring | None
) -> None:
    client = cluster.new_client()

    async def told() -> int:
        await asyncio.sleep(1)  # until it is announced
        return await client.logs.last_txid(NAME)

    with pytest.raises(NoSuchLogError):
        await client.logs.last_txid(NAME)
    log = await client.open(keyring=keyring)
    await log.append(b"none")
    assert await told() == -1
    await log.append(b"a", txid=100)
    assert await told() == 100
    await client.logs.trim(NAME, LATEST)
    assert await told() == 100
    await log.roll()
    await client.logs.trim(NAME, LATEST)
    assert (await client.manifest()).segments[0].end is None
    assert await told() == 100
    await log.append(b"b", txid=101)
    assert await told() == 101
    assert not log.is_deposed
    await log.close()
    assert await told() == 101
