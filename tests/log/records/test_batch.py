"""Batches: what is encoded comes back, and damage is never taken for records."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import CorruptEntryError, EntryTooLargeError
from quire.log.records.batch import (
    BATCH_BYTES_MAX,
    HEADER,
    Compression,
    body_size,
    decode_batch,
    decode_header,
    encode_batch,
)

records_lists = st.lists(st.binary(max_size=200), min_size=1, max_size=50)
compressions = st.sampled_from(list(Compression))


def _encode(record: bytes, compression: Compression = Compression.NONE) -> bytes:
    return encode_batch([record], first_offset=0, epoch=1, timestamp_ms=0, compression=compression)


@given(records_lists, compressions, st.integers(0, 2**62), st.integers(1, 2**62))
def test_round_trip(
    records: list[bytes], compression: Compression, first_offset: int, epoch: int
) -> None:
    payload = encode_batch(
        records,
        first_offset=first_offset,
        epoch=epoch,
        timestamp_ms=7,
        compression=compression,
    )
    batch = decode_batch(payload, 1, 2)
    assert batch.payloads() == records
    assert len(batch) == len(records)
    assert batch.header == decode_header(payload, 1, 2)
    assert batch.header.first_offset == first_offset
    assert batch.header.next_offset == first_offset + len(records)
    assert (batch.header.epoch, batch.header.timestamp_ms) == (epoch, 7)
    assert batch.header.body_size == body_size(records)


@given(records_lists)
def test_columns_are_the_buffers_of_an_arrow_array(records: list[bytes]) -> None:
    payload = encode_batch(records, first_offset=0, epoch=1, timestamp_ms=0)
    batch = decode_batch(payload, 1, 0)
    offsets, data = batch.arrow_buffers()
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    assert pa.BinaryArray.from_buffers(pa.binary(), len(batch), buffers).to_pylist() == records


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.ZSTD])
def test_what_compresses_shrinks_and_what_does_not_is_stored_as_it_is(
    compression: Compression,
) -> None:
    shrinks = _encode(b"a" * 10_000, compression)
    assert len(shrinks) < 1000
    assert decode_header(shrinks, 1, 0).compression is compression
    grows = _encode(b"a", compression)
    assert decode_header(grows, 1, 0).compression is Compression.NONE


@given(st.data(), records_lists, compressions)
def test_a_cut_batch_is_corrupt(
    data: st.DataObject, records: list[bytes], compression: Compression
) -> None:
    payload = encode_batch(
        records, first_offset=0, epoch=1, timestamp_ms=0, compression=compression
    )
    size = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(CorruptEntryError, match="entry 5 of ledger 9"):
        decode_batch(payload[:size], 9, 5)


@given(st.data(), records_lists, compressions)
def test_a_flipped_bit_never_yields_another_number_of_bytes_than_announced(
    data: st.DataObject, records: list[bytes], compression: Compression
) -> None:
    """The frame's digest catches damage; the batch only has to stay consistent or refuse."""
    payload = bytearray(
        encode_batch(records, first_offset=0, epoch=1, timestamp_ms=0, compression=compression)
    )
    bit = data.draw(st.integers(0, 8 * len(payload) - 1))
    payload[bit // 8] ^= 1 << bit % 8
    try:
        batch = decode_batch(bytes(payload), 1, 0)
    except CorruptEntryError:
        return
    assert body_size(batch.payloads()) == batch.header.body_size
    assert len(batch.payloads()) == batch.header.count


@given(st.binary(max_size=100))
def test_noise_is_no_batch(noise: bytes) -> None:
    with pytest.raises(CorruptEntryError):
        decode_batch(b"XX" + noise, 1, 0)


@pytest.mark.parametrize(
    ("position", "value", "complaint"),
    [
        (2, 9, "version"),
        (3, 9, "codec"),
        (7, 0, "impossible"),
        (8, 255, "impossible"),
        (12, 255, "impossible"),
        (27, 0, "impossible"),
        (36, 9, "add up"),
    ],
)
def test_header_fields_are_believed_only_within_bounds(
    position: int, value: int, complaint: str
) -> None:
    payload = bytearray(encode_batch([b"abc"], first_offset=0, epoch=1, timestamp_ms=0))
    payload[position] = value
    with pytest.raises(CorruptEntryError, match=complaint):
        decode_batch(bytes(payload), 1, 0)


def test_the_largest_batch_fits_one_entry_and_the_next_does_not() -> None:
    payload = _encode(b"x" * (BATCH_BYTES_MAX - 4))
    assert len(payload) == BATCH_BYTES_MAX + HEADER.size
    with pytest.raises(EntryTooLargeError):
        _encode(b"x" * (BATCH_BYTES_MAX - 3))


@pytest.mark.parametrize("compression", Compression)
def test_threads_pack_and_unpack_each_for_itself(compression: Compression) -> None:
    """Offloading unpacks in threads, and each event loop of a process packs and unpacks."""

    def work(number: int) -> bool:
        draw = random.Random(number)
        for _ in range(40):
            records = [bytes(draw.choices(b"abcdefgh", k=200)) * 100 for _ in range(5)]
            packed = encode_batch(
                records, first_offset=0, epoch=1, timestamp_ms=0, compression=compression
            )
            if decode_batch(packed, 1, 0).payloads() != records:
                return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))
