"""How rows become entries: in order, as full as the options allow, digested for streams only."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any, cast

import pytest

from quire.errors import InvalidRequestError
from quire.log.records.arrow_rows import Cell, RecordRows
from quire.log.records.attributes import NO_ATTRIBUTES, Attributes, NewRecord
from quire.log.records.batch import Batch, decode_batch
from quire.spark.content import Content
from quire.spark.options import WriteOptions
from quire.spark.writer import PartWriter


class Ingest:
    """Stands for the log, and keeps what it is given."""

    ledger = 1
    length = 0
    last_pushed = -1

    def __init__(self) -> None:
        self.entries: list[bytes] = []

    def create_part(self, job: str, options: object) -> Ingest:
        return self

    def check_attributes_allowed(self) -> None:
        return None

    def append_many(self, entries: list[bytes]) -> None:
        self.entries += entries

    def close(self) -> None:
        return None

    @property
    def batches(self) -> list[Batch]:
        return [decode_batch(entry, 1, number) for number, entry in enumerate(self.entries)]


OPTIONS = WriteOptions.parse({"cluster": "sqlite:///store", "log": "log"})
BYTES_MAX, RECORDS_MAX = OPTIONS.log_options.batch_bytes, OPTIONS.log_options.batch_records


def written(*rows: RecordRows, digests: bool = False) -> tuple[list[Batch], Content]:
    ingest = Ingest()
    writer = PartWriter(cast("Any", ingest), "job", OPTIONS, digests=digests)
    for each in rows:
        writer.add(each)
    writer.flush()
    assert writer.waiting_bytes == 0
    return ingest.batches, writer.content


def cut(sizes: list[int]) -> list[list[int]]:
    """Return the sizes of records by entry, put together one by one."""
    entries: list[list[int]] = [[]]
    for size in sizes:
        last = entries[-1]
        if last and (sum(last) + size > BYTES_MAX or len(last) == RECORDS_MAX):
            entries.append([])
        entries[-1].append(size)
    return entries


@pytest.mark.parametrize("seed", range(20))
def test_entries_are_as_full_as_they_may_be(seed: int) -> None:
    rng = random.Random(seed)
    largest = rng.choice([0, 1, 100, 5_000, BYTES_MAX, 2 * BYTES_MAX])
    payloads = [rng.randbytes(rng.randint(0, largest)) for _ in range(rng.randint(1, 300))]
    payloads *= 1 if largest > 100 else 1 + 2 * RECORDS_MAX // len(payloads)
    at = sorted(rng.choices(range(len(payloads)), k=3))
    rows = [payloads[: at[0]], payloads[at[0] : at[1]], payloads[at[1] : at[2]], payloads[at[2] :]]
    batches, _ = written(*map(RecordRows, rows))
    assert [each for batch in batches for each in batch.payloads()] == payloads
    assert [list(map(len, each.payloads())) for each in batches] == cut(list(map(len, payloads)))
    firsts = [each.header.first_offset for each in batches]
    counts = [each.header.count for each in batches]
    assert [later - first for first, later in pairwise(firsts)] == counts[:-1]


def test_texts_are_records_and_nulls_are_refused() -> None:
    batches, _ = written(RecordRows(["a", "ä", b"\x00"]))
    assert [each for batch in batches for each in batch.payloads()] == [b"a", "ä".encode(), b"\x00"]
    rows: list[Cell] = [b"a", None]
    with pytest.raises(InvalidRequestError, match="filter out rows with payload null"):
        written(RecordRows(rows))


def test_attributes_stay_with_their_records() -> None:
    given: list[Attributes] = [
        NewRecord(b"", key=b"%d" % n).attributes if n % 3 else NO_ATTRIBUTES for n in range(3000)
    ]
    payloads = [b"%d" % n for n in range(3000)]
    plain = RecordRows([b"plain"] * 10)
    batches, _ = written(plain, RecordRows(payloads, given), plain)
    found = [
        (payload, key)
        for batch in batches
        for payload, key in zip(
            batch.payloads(),
            [each.key for each in batch.attributes.of_slots(range(len(batch)))]
            if batch.attributes
            else [None] * len(batch),
            strict=True,
        )
    ]
    expected = [(b"%d" % n, b"%d" % n if n % 3 else None) for n in range(3000)]
    edge = [(b"plain", None)] * 10
    assert found == [*edge, *expected, *edge]


def test_only_streams_digest_their_records() -> None:
    rows = RecordRows([b"a", b"b"])
    assert written(rows)[1] == Content()
    assert written(rows, digests=True)[1] == Content().with_records([b"b", b"a"])
