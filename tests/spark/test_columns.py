"""Columns: what Arrow gets is what the slices hold, however they are cut and collected."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from quire import columns
from quire.columns import entry_batches, spans_batches
from quire.entry import Entry
from quire.log.reading.bounds import EVERYTHING
from quire.log.reading.span import Slice, Span
from quire.log.records.batch import decode_batch, encode_batch
from quire.log.records.producers import encode_columns
from quire.log.records.txids import TXIDS, encode_txids
from quire.spark.options import LEDGER_COLUMNS, LOG_COLUMNS

SPAN = Span("orders", "id", 3, 17, 5, 0, 99, range(1000, 3000), None, EVERYTHING)


_COLUMNS: tuple[Callable[[int], bytes], ...] = (
    lambda count: b"",
    lambda count: _ids([-1, *range(count - 1)]),
    lambda count: _ids([77] * count),
)


def _ids(ids: list[int]) -> bytes:
    return encode_columns({TXIDS: encode_txids(ids)})


def make(rng: random.Random, counts: list[int], skipped: int, kept: int) -> list[Slice]:
    """Slices of consecutive entries; of the first some records are left out, of the last too."""
    slices, offset = [], 1000
    for entry, count in enumerate(counts):
        records = [rng.randbytes(rng.choice([0, 1, 7, 300])) for _ in range(count)]
        body = encode_batch(
            records,
            first_offset=offset,
            epoch=5,
            timestamp_ms=1_000 + entry,
            columns=_COLUMNS[entry % 3](count),
        )
        first = skipped if entry == 0 else 0
        end = kept if entry == len(counts) - 1 else count
        slices.append(Slice(entry, range(first, end), decode_batch(body, 17, entry)))
        offset += count
    return slices


def record_batches(span: Span, slices: list[Slice], names: list[str]) -> Iterator[pa.RecordBatch]:
    return spans_batches([span], ((0, piece) for piece in slices), names)


@pytest.mark.parametrize("rows_max", [1, 10, 64 * 1024])
def test_every_record_becomes_its_row(monkeypatch: pytest.MonkeyPatch, rows_max: int) -> None:
    monkeypatch.setattr(columns, "ROWS_MAX", rows_max)
    slices = make(random.Random(1), [5, 1, 40, 3, 9], skipped=2, kept=4)
    made = record_batches(SPAN, slices, list(LOG_COLUMNS))
    rows = [row for batch in made for row in batch.to_pylist()]
    expected = [
        {
            "log": "orders",
            "segment": 3,
            "ledger": 17,
            "entry": piece.entry,
            "slot": slot,
            "offset": piece.batch.header.first_offset + slot,
            "epoch": 5,
            "timestamp": datetime.fromtimestamp((1_000 + piece.entry) / 1000, UTC),
            "txid": piece.batch.txids_of(range(slot, slot + 1))[0],
            "payload": piece.batch.payloads()[slot],
        }
        for piece in slices
        for slot in piece.slots
    ]
    assert rows == expected


@pytest.mark.parametrize("chosen", [["payload"], ["offset"], ["slot", "log"], ["payload", "entry"]])
def test_only_the_columns_asked_for_are_made(chosen: list[str]) -> None:
    slices = make(random.Random(2), [4, 4], skipped=0, kept=4)
    (whole,) = record_batches(SPAN, slices, list(LOG_COLUMNS))
    (some,) = record_batches(SPAN, slices, chosen)
    assert some.schema.names == chosen
    assert some.to_pydict() == {name: whole.to_pydict()[name] for name in chosen}


def test_nothing_is_no_batch() -> None:
    assert list(record_batches(SPAN, [], list(LOG_COLUMNS))) == []


def test_entries_become_rows() -> None:
    runs = [[Entry(9, n, n - 1, 0, b"%d" % n) for n in range(3)], [Entry(9, 3, 2, 0, b"3")]]
    found = [
        row for batch in entry_batches(9, runs, list(LEDGER_COLUMNS)) for row in batch.to_pylist()
    ]
    assert found == [{"ledger": 9, "entry": n, "payload": b"%d" % n} for n in range(4)]


def test_small_segments_share_a_batch_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = [replace(SPAN, segment=number, offsets=range(1000, 1014)) for number in range(9)]
    slices = make(random.Random(3), [5, 9], skipped=0, kept=9)
    pieces = [(index, piece) for index in range(9) for piece in slices]
    names = ["segment", "offset", "payload"]
    (whole,) = spans_batches(spans, iter(pieces), names)
    assert whole["segment"].to_pylist() == [number for number in range(9) for _ in range(14)]
    assert whole["offset"].to_pylist() == 9 * list(range(1000, 1014))
    monkeypatch.setattr(columns, "ROWS_MAX", 30)
    cut = list(spans_batches(spans, iter(pieces), names))
    assert [len(batch) for batch in cut] == [28, 28, 28, 28, 14]
    assert [row for batch in cut for row in batch.to_pylist()] == whole.to_pylist()
