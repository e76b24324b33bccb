"""A segment as a Parquet file: one row per record, and everything a reader of the log is told.

    segment entry slot offset epoch timestamp txid producer sequence key headers event_time
    payload columns sealed

The first columns say what the log says of the record, placed as it lies in the log; readers of
records take just these. `columns` are the optional columns of the record's batch as they were
(batch.py), in the row of its slot 0, so that nothing gets lost that this program does not
understand. A batch that is encrypted stays so: it stands in `sealed`, as it was, in the row of its
slot 0, and its payloads are null. Out of a file come the very entries of the ledger again,
uncompressed: readers of segments need not know where they lie.

    row groups   whole entries, about `GROUP_BYTES`; which, and their sums, is in the footer
    checksums    the manifest has the footer's, the footer those of the row groups (checksums.py);
                 and the writer of a file compares the ledger's records with the file's

Reading is in `cold_reader`. Blocking: to be called in a thread. Nothing is done for each record but
in the columns of producers.
"""

from __future__ import annotations

import json
import os
from array import array
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import compute, fs
from pyarrow import parquet as pq

from quire.entry import Entry, EntryId
from quire.errors import ColdTierError
from quire.log.cold.checksums import SummedSink, Summing
from quire.log.cold.tier import delete_file, locate, sync_one, tier_errors
from quire.log.manifest.cold_files import ColdFile
from quire.log.manifest.manifest import Segment
from quire.log.records.attributes import ATTRIBUTE_VALUES, NO_ATTRIBUTES, decode_attributes
from quire.log.records.batch import (
    BatchHeader,
    assemble_batch,
    decode_batch,
    decode_header,
    place_batch,
    place_header,
)
from quire.log.records.encryption import is_encrypted
from quire.log.records.producers import STAMPS, ProducerSequence, decode_columns, decode_stamps
from quire.log.records.txids import NO_TXID

FORMAT: Final = 1
KEY: Final = b"quire"
GROUP_BYTES: Final = 8 * 1024 * 1024
GROUP_ROWS: Final = 128 * 1024
"""A reader has one group in memory, and a search reads some: 8 MiB are some 20 ms."""

SCHEMA: Final = pa.schema(
    [
        ("segment", pa.int64()),
        ("entry", pa.int64()),
        ("slot", pa.int32()),
        ("offset", pa.int64()),
        ("epoch", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("transaction", pa.int64()),
        ("producer", pa.string()),
        ("sequence", pa.int64()),
        ("key", pa.binary()),
        ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("payload", pa.binary()),
        ("columns", pa.binary()),
        ("sealed", pa.binary()),
    ]
)
HEADS: Final = ("entry", "offset", "epoch", "timestamp")
"""The columns that say where entries lie, without their content."""


class FileWriter:
    """Writes one segment's entries into a file among the attempts. Not whole until `finish`."""

    def __init__(self, log: str, log_id: str, segment: Segment, tier: str, name: str) -> None:
        self._segment = segment
        self._tier, self._name, self._log_id = tier, name, log_id
        cold = ColdFile(tier, name, 0, 0)
        self._final, self.uri = cold.uri, cold.attempt_uri
        self._system, self._path = locate(self.uri)
        self._facts: dict[str, Any] = {
            "format": FORMAT,
            "log": log,
            "log_id": log_id,
            "segment": segment.number,
            "ledger": segment.ledger,
            "adopted": segment.ingested,
            "groups": [],
        }
        with tier_errors(self.uri):
            self._system.create_dir(os.path.dirname(self._path), recursive=True)
            self._sink = SummedSink(self._system.open_output_stream(self._path))
            self._writer = pq.ParquetWriter(
                self._sink,
                SCHEMA,
                compression="zstd",
                use_dictionary=["segment", "epoch", "producer"],
                write_statistics=["segment", "entry", "offset", "epoch", "timestamp"],
                write_page_checksum=True,
            )
        self._group = _Group(segment)
        self.content = Summing()
        """The sum of the entries, as they will come out of the file."""

    def add(self, entries: list[Entry]) -> None:
        """Take in the ledger's next entries. Raises `CorruptEntryError`, `ColdTierError`."""
        for entry in entries:
            self.content.add(self._group.add(entry))
            if self._group.bytes >= GROUP_BYTES or self._group.rows >= GROUP_ROWS:
                self._flush()

    def _flush(self) -> None:
        group, self._group = self._group, _Group(self._segment)
        if group.rows:
            with tier_errors(self.uri):
                self._writer.write_table(group.build(), row_group_size=group.rows)
            self._facts["groups"].append([group.first, *self._sink.cut()])

    def finish(self) -> ColdFile:
        """Make the file whole and durable, and return its row for a manifest."""
        self._flush()
        with tier_errors(self.uri):
            facts = json.dumps(self._facts, sort_keys=True)
            self._writer.add_key_value_metadata({KEY.decode(): facts})
            self._writer.close()
            size, checksum = self._sink.footer()
            self._sink.close()
            if isinstance(self._system, fs.LocalFileSystem):
                _sync(self._path)
        return ColdFile(self._tier, self._name, size, checksum)

    def abandon(self) -> None:
        """Drop the written bytes, as far as that is possible now."""
        for close in (
            self._writer.close,
            self._sink.close,
            lambda: delete_file(self._final, self._log_id),
        ):
            with suppress(OSError, pa.ArrowException, ValueError, ColdTierError):
                close()


def _sync(path: str) -> None:
    """Have a local file survive a crash of the machine, with every directory that leads to it.

    Any of them may be new, made by us, by an attempt that died, or by an attempt under way, and
    not durable yet. The walk ends at the root. A directory that we may not open is not ours.
    """
    sync_one(path)
    for directory in map(str, Path(path).parents):
        with suppress(PermissionError):
            sync_one(directory)
        if os.path.ismount(directory):
            return


class _Group:
    """Entries on their way into a row group."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._numbers = {name: array("q") for name in (*HEADS, "transaction")}
        self._slots = array("i")
        self._lengths: list[bytes] = [bytes(4)]  # the first one starts at 0
        self._payloads: list[memoryview] = []
        self._columns: list[tuple[int, int, bytes]] = []
        self._sealed: list[tuple[int, int, bytes]] = []
        """Where a batch with columns, or a sealed one, begins; its records; and its columns."""
        self.rows = 0
        self.bytes = 0

    @property
    def first(self) -> EntryId:
        """Its first entry."""
        return self._numbers["entry"][0]

    def add(self, entry: Entry) -> bytes:
        """Take an entry in and return its bytes as they will come out of the file."""
        base = self._segment.base
        header = decode_header(entry.payload, entry.ledger, entry.entry)
        if is_encrypted(entry.payload):
            self._sealed.append((self.rows, header.count, entry.payload))
            self._lengths.append(bytes(4 * header.count))
            self._add_rows(entry.entry, place_header(header, base), (NO_TXID,))
            self.bytes += len(entry.payload)
            return entry.payload
        batch = decode_batch(entry.payload, entry.ledger, entry.entry)
        lengths = bytes(batch.body[: 4 * len(batch)])
        self._lengths.append(lengths)
        self._payloads.append(batch.data)
        if batch.columns:
            self._columns.append((self.rows, len(batch), batch.columns))
        placed = place_batch(batch, base)
        self._add_rows(entry.entry, placed.header, placed.txids or (NO_TXID,))
        self.bytes += len(batch.body)
        return assemble_batch(lengths, batch.data, batch.header, batch.columns)

    def _add_rows(self, entry: EntryId, header: BatchHeader, ids: tuple[int, ...]) -> None:
        count = header.count
        self._numbers["offset"].extend(range(header.first_offset, header.next_offset))
        self._numbers["transaction"].extend(ids * count if len(ids) == 1 else ids)
        same = {"entry": entry, "epoch": header.epoch, "timestamp": header.timestamp_ms}
        for name, value in same.items():
            self._numbers[name].extend(array("q", [value]) * count)
        self._slots.extend(range(count))
        self.rows += count

    def build(self) -> Any:
        """Return the group as an Arrow table."""
        made = {
            name: _fixed(SCHEMA.field(name).type, values) for name, values in self._numbers.items()
        }
        known = compute.not_equal(made["transaction"], NO_TXID)
        made["transaction"] = compute.if_else(known, made["transaction"], None)
        made["segment"] = pa.repeat(pa.scalar(self._segment.number, pa.int64()), self.rows)
        made["slot"] = _fixed(pa.int32(), self._slots)
        made["payload"] = self._payload()
        made["columns"], made["sealed"] = self._sparse(self._columns), self._sparse(self._sealed)
        made["producer"], made["sequence"] = self._stamps()
        made |= self._attributes()
        return pa.Table.from_arrays([made[name] for name in SCHEMA.names], schema=SCHEMA)

    def _payload(self) -> Any:
        data = pa.py_buffer(b"".join(self._payloads))
        ends = _ends(self.rows, self._lengths)
        whole = pa.Array.from_buffers(pa.binary(), self.rows, [None, ends, data])
        if not self._sealed:
            return whole
        is_open = bytearray(b"\1" * self.rows)
        for row, count, _ in self._sealed:
            is_open[row : row + count] = bytes(count)
        mask = pa.Array.from_buffers(pa.uint8(), self.rows, [None, pa.py_buffer(is_open)])
        return compute.if_else(compute.equal(mask, 1), whole, None)

    def _sparse(self, values: list[tuple[int, int, bytes]]) -> Any:
        """What batches have as a whole, each in the row where its batch begins."""
        lengths, valid = array("i", bytes(4 * self.rows + 4)), bytearray(-(-self.rows // 8))
        for row, _, value in values:
            lengths[row + 1] = len(value)
            valid[row // 8] |= 1 << row % 8
        data = pa.py_buffer(b"".join(value for _, _, value in values))
        buffers = [pa.py_buffer(bytes(valid)), _ends(self.rows, [lengths.tobytes()]), data]
        return pa.Array.from_buffers(pa.binary(), self.rows, buffers)

    def _attributes(self) -> dict[str, Any]:
        """Keys, headers and event times: for readers of the file without the log."""
        rows = [NO_ATTRIBUTES] * self.rows
        for row, count, columns in self._columns:
            found = decode_attributes(decode_columns(columns), count)
            if found:
                rows[row : row + count] = found.of_slots(range(count))
        return {
            name: pa.array(map(value_of, rows), SCHEMA.field(name).type)
            if any(each is not NO_ATTRIBUTES for each in rows)
            else pa.nulls(self.rows, SCHEMA.field(name).type)
            for name, value_of in ATTRIBUTE_VALUES.items()
        }

    def _stamps(self) -> tuple[Any, Any]:
        """Producers and their numbers: for readers of the file without the log."""
        found: list[tuple[int, int, bytes]] = []
        for row, count, columns in self._columns:
            kinds = decode_columns(columns)
            if STAMPS in kinds:
                found.append((row, count, kinds[STAMPS]))
        if not found:
            return pa.nulls(self.rows, pa.string()), pa.nulls(self.rows, pa.int64())
        stamps: list[ProducerSequence | None] = [None] * self.rows
        for row, count, data in found:
            stamps[row : row + count] = decode_stamps(data, count)
        return (
            pa.array(
                [producer_sequence and producer_sequence.producer for producer_sequence in stamps],
                pa.string(),
            ),
            pa.array(
                [
                    None if producer_sequence is None else producer_sequence.sequence
                    for producer_sequence in stamps
                ],
                pa.int64(),
            ),
        )


def _fixed(kind: Any, values: array[int]) -> Any:
    """An Arrow array over a column's own memory."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _ends(rows: int, lengths: list[bytes]) -> Any:
    """The offsets of an Arrow binary array with a first length of 0."""
    sizes = pa.py_buffer(b"".join(lengths))
    return compute.cumulative_sum(
        pa.Array.from_buffers(pa.int32(), rows + 1, [None, sizes])
    ).buffers()[1]
