"""Appending Arrow tables: the part of `Log` for callers with columns.

Rows go to the pipeline one by one, as `submit` takes them, so batches of the log are as full as
ever, and the order is the order of the table. At most two pieces of it are in flight.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final, NamedTuple, Protocol, cast

from quire.extras import needed_for
from quire.log.records.attributes import NewRecord
from quire.log.records.position import Appended

PIECE_ROWS: Final = 4096
"""Rows that are turned into records at once."""


class AppendedTable(NamedTuple):
    """A table that was appended: how many records, and the places of the first and the last.

    The places are None for a table without rows.
    """

    records: int
    first: Appended | None
    last: Appended | None


class Submits(Protocol):
    """The part of `Log` that tables need."""

    async def submit(self, record: bytes | NewRecord) -> asyncio.Future[Appended]:
        """Queue a record: see `Log.submit`."""
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
        waiting: deque[asyncio.Future[Appended]] = deque()
        last: Appended | None = None
        try:
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                for record in records_of(piece, count):
                    waiting.append(await log.submit(record))
                count += len(piece)
                while len(waiting) > len(piece):
                    last = await waiting.popleft()
                    first = first or last
            while waiting:
                last = await waiting.popleft()
                first = first or last
        finally:
            for each in waiting:
                each.add_done_callback(_retrieved)
        return AppendedTable(count, first, last)


def _retrieved(future: asyncio.Future[Appended]) -> None:
    """Take the outcome of a record whose table ended with another error."""
    if not future.cancelled():
        future.exception()
