"""The size of compressed data, before it is unpacked by others."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import codec
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from quire.errors import InvalidRequestError
from quire.gateway.kafka.records import _new, decode_batches
from quire.gateway.kafka.unpacking import GZIP, LZ4, SNAPPY, ZSTD, Allowance, check_size
from quire.log.records.attributes import HEADERS_MAX

PACKED = {
    GZIP: codec.gzip_encode,
    SNAPPY: codec.snappy_encode,
    LZ4: codec.lz4_encode,
    ZSTD: codec.zstd_encode,
}
SIZE = 300_000


def zeros(compression: int) -> bytes:
    """A batch of one record of 100,000 zeros."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=2**31 - 1,
    )
    builder.append(0, 1, None, bytes(100_000), [])
    return bytes(builder.build())


@pytest.mark.parametrize("compression", PACKED)
def test_data_that_unpacks_to_the_limit_passes_and_more_is_refused(compression: int) -> None:
    data = bytes(PACKED[compression](bytes(SIZE)))
    assert len(data) < SIZE // 10
    check_size(compression, data, SIZE)
    with pytest.raises(InvalidRequestError, match=f"more than {SIZE - 1}: send smaller"):
        check_size(compression, data, SIZE - 1)


@pytest.mark.parametrize("compression", [GZIP, LZ4, ZSTD])
def test_streams_that_follow_each_other_count_together(compression: int) -> None:
    data = 2 * bytes(PACKED[compression](bytes(SIZE)))
    with pytest.raises(InvalidRequestError):
        check_size(compression, data, 2 * SIZE - 1)
    check_size(compression, data, 2 * SIZE)


def test_data_without_compression_has_its_own_size() -> None:
    check_size(0, bytes(10), 10)
    with pytest.raises(InvalidRequestError):
        check_size(0, bytes(11), 10)


@pytest.mark.parametrize("compression", PACKED)
def test_a_small_batch_with_large_contents_is_refused(
    compression: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quire.gateway.kafka.records.UNPACKED_BYTES_MAX", 50_000)
    data = zeros(compression)
    assert len(data) < 10_000
    with pytest.raises(InvalidRequestError, match="unpacks to more than 50000"):
        list(decode_batches(data, Allowance()))
    monkeypatch.setattr("quire.gateway.kafka.records.UNPACKED_BYTES_MAX", 200_000)
    (found,) = decode_batches(data, Allowance())
    assert found.records[0].payload == bytes(100_000)


@pytest.mark.parametrize(
    ("limit", "most"), [("REQUEST_BYTES_MAX", 250_000), ("REQUEST_RECORDS_MAX", 2)]
)
def test_the_batches_of_a_request_count_together(
    limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"quire.gateway.kafka.unpacking.{limit}", most)
    data = zeros(GZIP)
    allowance = Allowance()
    assert len(list(decode_batches(2 * data, allowance))) == 2
    with pytest.raises(InvalidRequestError, match="send several requests"):
        list(decode_batches(data, allowance))
    with pytest.raises(InvalidRequestError, match="send several requests"):
        list(decode_batches(3 * data, Allowance()))


class Copied(bytes):
    """Bytes that count how many of them were copied."""

    copied = 0

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        if isinstance(place, slice):
            self.copied += len(found)
        return found


def test_many_batches_are_not_copied_once_for_each_of_them() -> None:
    data = Copied(100 * zeros(GZIP))
    assert len(list(decode_batches(data, Allowance()))) == 100
    assert data.copied < 2 * len(data)


def test_too_many_headers_are_refused_before_they_are_looked_at() -> None:
    with pytest.raises(InvalidRequestError, match="headers are too many"):
        _new(None, b"", [("", None)] * (HEADERS_MAX + 1), 0)
