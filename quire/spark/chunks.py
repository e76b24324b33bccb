"""Chunks: the rows of a task as numbered requests to a gateway.

Rows are cut by their count and bytes only. So every attempt of a task cuts the same chunks from the
same rows, whatever batches Arrow brings them in. A number has the batch in its upper bits: a
producer's numbers grow from batch to batch, and each log remembers one producer for each partition
of a job, not one for each batch.

Pure: no clock and no I/O.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

from quire.errors import InvalidRequestError
from quire.log.records.arrow_rows import RecordRows, as_bytes
from quire.log.records.attribute_json import ATTRIBUTE_FIELDS, text_field
from quire.log.records.attributes import ATTRIBUTES_BYTES, NO_ATTRIBUTES, Attributes

CHUNK_RECORDS: Final = 1000
CHUNK_BYTES: Final = 512 * 1024
"""An entry has 4 MiB, and the leader adds columns of its own to it. Neither bound is an option: a
task that is repeated with another one would cut other chunks.
"""

CHUNK_BITS: Final = 24
"""16 million chunks of 512 KiB: 8 TiB of one task."""

BATCH_MAX: Final = 2 ** (63 - CHUNK_BITS) - 1

_FIELDS: Final = ("value", "base64", *ATTRIBUTE_FIELDS)

Row: TypeAlias = tuple[bytes, Attributes]
Fields: TypeAlias = Mapping[str, Any]
"""A record in JSON."""


class ChunkNumber(NamedTuple):
    """Which chunk of a producer's it is."""

    batch: int
    chunk: int

    @property
    def sequence(self) -> int:
        """The number by which the log recognizes a repetition."""
        assert self.chunk < 1 << CHUNK_BITS, f"chunk {self.chunk} of a task"
        return self.batch << CHUNK_BITS | self.chunk

    @classmethod
    def of(cls, sequence: int) -> ChunkNumber:
        """Return the place that has a number."""
        return cls(sequence >> CHUNK_BITS, sequence & (1 << CHUNK_BITS) - 1)


def producer_of(job: str, query: str, partition: int) -> str:
    """Return the producer of a partition: names are bounded, so the job's is digested.

    Args:
        job: the name of the work.
        query: the identity of a streaming query; empty for a batch.
        partition: the number of the task's partition.
    """
    name = json.dumps([job, query, partition]).encode()
    return f"spark-{blake2b(name, digest_size=16).hexdigest()}"


def rows_in(batches: Iterable[RecordRows]) -> Iterator[Row]:
    """Yield the rows of batches. Raises `InvalidRequestError` for a null payload."""
    for rows in batches:
        for at, cell in enumerate(rows.payloads):
            payload = as_bytes(cell)
            if payload is None:
                raise InvalidRequestError("a record is bytes: filter out rows with payload null")
            yield payload, rows.attributes[at] if rows.attributes else NO_ATTRIBUTES


def cut(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield the chunks of rows, each as full as the bounds allow. A larger row is alone."""
    waiting: list[Row] = []
    size = 0
    for row in rows:
        payload, attributes = row
        cost = len(payload)
        if attributes != NO_ATTRIBUTES:
            cost += ATTRIBUTES_BYTES + attributes.cost()
        if waiting and (len(waiting) == CHUNK_RECORDS or size + cost > CHUNK_BYTES):
            yield waiting
            waiting, size = [], 0
        waiting.append(row)
        size += cost
    if waiting:
        yield waiting


def fields_of(row: Row) -> dict[str, Any]:
    """Return a row as a gateway takes it, and as a gateway gives it back."""
    payload, (key, headers, event_time_ms) = row
    fields: dict[str, Any] = {}
    if key is not None:
        fields |= text_field("key", key)
    if headers:
        fields["headers"] = [{"name": name, **text_field("value", data)} for name, data in headers]
    if event_time_ms is not None:
        fields["event_time_ms"] = event_time_ms
    try:
        fields["value"] = payload.decode()
    except UnicodeDecodeError:
        fields["base64"] = base64.b64encode(payload).decode()
    return fields


def body_of(records: Sequence[Fields], producer: str, place: ChunkNumber) -> bytes:
    """Return the body of a chunk's request."""
    terms = {"id": producer, "sequence": place.sequence}
    return json.dumps({"records": records, "producer": terms}, ensure_ascii=False).encode()


def only_fields(record: Fields) -> Fields:
    """Return the fields of a record in the log that a row has, too."""
    return {name: record[name] for name in _FIELDS if name in record}


def difference(ours: Sequence[Fields], theirs: Sequence[Fields]) -> int | None:
    """Return the first place in which records of the log differ from a chunk's, if there is any."""
    for at, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        if our != only_fields(their):
            return at
    return None


class ChunkSearch:
    """Looks for a chunk among the records of a log, which come a page at a time."""

    def __init__(self, chunk: Sequence[Fields]) -> None:
        self._chunk = list(chunk)
        self._last: list[Fields] = []
        """Records that the chunk may begin with."""

    def find(self, page: Iterable[Fields]) -> int | None:
        """Return how many records of the page are after the chunk, None if it has not come."""
        seen = self._last + [only_fields(each) for each in page]
        size = len(self._chunk)
        for at in range(len(seen) - size + 1):
            if seen[at] == self._chunk[0] and seen[at : at + size] == self._chunk:
                return len(seen) - at - size
        self._last = seen[max(0, len(seen) - size + 1) :] if size > 1 else []
        return None
