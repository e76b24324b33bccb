"""Appending Arrow tables: the part of `Log` for callers with columns.

Rows go to the pipeline in small groups, as `submit_many` takes them: a group costs as much as one
record. Groups are never divided, so they are small beside a batch, which stays nearly as full as
with single records. At most two pieces of the table are in flight.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol, cast

from quire.extras import needed_for
from quire.log.manifest.options import LogOptions
from quire.log.records.attributes import NewRecord
from quire.log.records.position import Appended

PIECE_ROWS: Final = 4096
"""Rows that are turned into records at once."""

GROUPS_PER_BATCH: Final = 16
"""A batch that no further group fits into lacks less than a sixteenth of its size."""


class AppendedTable(NamedTuple):
    """A table that was appended: how many records, and the places of the first and the last.

    The places are None for a table without rows.
    """

    records: int
    first: Appended | None
    last: Appended | None


class Submits(Protocol):
    """The part of `Log` that tables need."""

    @property
    def options(self) -> LogOptions:
        """The options that the leader uses now."""
        ...

    async def submit_many(
        self, records: Sequence[bytes | NewRecord]
    ) -> asyncio.Future[list[Appended]]:
        """Queue records that are never divided: see `Log.submit_many`."""
        ...


class TableAppends:
    """The call of `Log` that takes Arrow."""

    async def append_table(self, table: Any) -> AppendedTable:
        """Append the rows of an Arrow table, in order, a record each.

        Args:
            table: a `pyarrow.Table`, `RecordBatch` or `RecordBatchReader`, or what has the Arrow
                stream interface, such as a data frame of Polars or a relation of DuckDB. It has a
                column `payload` (binary or string), and may have `key` (binary or string),
                `headers` (list of structs of `name` and `value`) and `event_time` (timestamp).
                A reader is pulled in another thread, a batch at a time.

        Returns:
            How many records were appended, and the places of the first and the last.

        Raises:
            InvalidRequestError: a column is missing, unknown or of another type, or a payload is
                null. Records before that row may be in the log.
            MissingExtraError: pyarrow is not installed: `pip install 'quire[arrow]'`.
            QuireError: the errors of `submit`, and of the reader. The log has a prefix of the rows.

        Cancellation: rows that were queued may be in the log.

        Guarantees: the log has the rows in the order of the table, without a gap; records of other
            callers may come between them. A table larger than memory is appended in bounded memory.
        """
        with needed_for("Log.append_table", "arrow"):
            from quire.log.records.arrow_rows import check_columns, pieces_of, records_of
        log = cast(Submits, self)
        schema, pieces = pieces_of(table, PIECE_ROWS)
        check_columns(schema)
        count, first = 0, None
        waiting: deque[asyncio.Future[list[Appended]]] = deque()
        last: Appended | None = None
        in_flight = 0
        try:
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                for group in groups_of(records_of(piece, count), log.options):
                    waiting.append(await log.submit_many(group))
                    in_flight += len(group)
                count += len(piece)
                while in_flight > len(piece):
                    places = await waiting.popleft()
                    in_flight -= len(places)
                    first, last = first or places[0], places[-1]
            while waiting:
                places = await waiting.popleft()
                first, last = first or places[0], places[-1]
        finally:
            for each in waiting:
                each.add_done_callback(_retrieved)
        return AppendedTable(count, first, last)


def groups_of(
    records: Iterable[bytes | NewRecord], options: LogOptions
) -> Iterator[list[bytes | NewRecord]]:
    """Return records in groups, in order.

    A group is at most a sixteenth of a batch, by bytes and by records, or a single record.
    """
    rows_max = max(1, options.batch_records // GROUPS_PER_BATCH)
    bytes_max = options.batch_bytes // GROUPS_PER_BATCH
    group: list[bytes | NewRecord] = []
    size = 0
    for record in records:
        added = len(record) if type(record) is bytes else _size(record)
        if group and (len(group) == rows_max or size + added > bytes_max):
            yield group
            group, size = [], 0
        group.append(record)
        size += added
    if group:
        yield group


def _size(record: bytes | NewRecord) -> int:
    if isinstance(record, bytes):
        return len(record)
    key, headers, _ = record.attributes
    own = sum(len(name) + len(value or b"") for name, value in headers)
    return len(record.payload) + len(key or b"") + own


def _retrieved(future: asyncio.Future[list[Appended]]) -> None:
    """Take the outcome of a record whose table ended with another error."""
    if not future.cancelled():
        future.exception()
