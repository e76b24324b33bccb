"""Reading a bounded part of a log as Arrow record batches: `Client.scan_log`.

DuckDB, Polars and pyarrow pull: they ask for a batch once they have consumed the one before. So the
reader holds one batch, and the entries that the ledger reads ahead, whatever the size of the log.

They pull from a thread of their own choice, and the records arrive on the client's event loop. Each
pull therefore carries one step to the loop and waits for it. The loop's own thread would wait for
itself, so the reader rejects a pull from there.

Invariants:
  - What is scanned is settled when the reader is made: a snapshot, as in `Client.snapshot_log`.
  - A scan that names its first record fails if that record was trimmed; it skips nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from datetime import datetime
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from quire.errors import (
    HandleClosedError,
    InvalidRequestError,
    PositionTrimmedError,
)
from quire.extras import needed_for
from quire.log.directory import LogDirectory
from quire.log.reading.bounds import Bounds
from quire.log.reading.span import Slice, Span
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING, Position, check_offset, to_ms

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow import RecordBatchReader as RecordBatchReader
else:
    RecordBatch = RecordBatchReader = "pyarrow, which only a scan needs"

T = TypeVar("T")

Place: TypeAlias = Position | int | datetime
"""An end of a scan: a position, an offset, or an aware datetime."""

COLUMNS: Final = (
    "offset", "segment", "entry", "slot", "epoch", "timestamp", "txid", "payload",
)  # fmt: skip
"""The columns of a scan, in order, if the caller names none. `log`, `ledger`, `key`, `headers` and
`event_time` exist, too.
"""

WAKE_SECONDS: Final = 0.5
"""A waiting thread looks up this often: a loop that was closed answers no longer."""


async def scan(
    logs: LogDirectory,
    name: str,
    start: Place,
    end: Place,
    columns: Sequence[str] | None,
    password: bytes,
    keyring: Keyring | None,
) -> RecordBatchReader:
    """Return a reader of the records in `start` … `end`. `Client.scan_log` has the terms."""
    arrow = _columns_module()
    chosen = COLUMNS if columns is None else tuple(columns)
    schema = arrow.arrow_schema(chosen)
    spans = await logs.snapshot(name, password=password, bounds=make_bounds(start, end))
    if not isinstance(start, datetime) and start not in (BEGINNING, 0):
        await logs.check_left(name, start, password=password)

    def read(span: Span) -> AsyncGenerator[Slice, None]:
        return logs.read_span(span, password=password, keyring=keyring)

    async def batches() -> AsyncGenerator[RecordBatch, None]:
        wanted = start if isinstance(start, int) else None
        for span in spans:
            rows = arrow.SpanRows(span, chosen)
            async with aclosing(read(span)) as slices:
                async for piece in slices:
                    if wanted is not None:
                        _check_offset_found(name, wanted, piece, span)
                        wanted = None
                    if (batch := rows.add(piece)) is not None:
                        yield batch
            if (batch := rows.rest()) is not None:
                yield batch

    pulled = _pull(asyncio.get_running_loop(), batches())
    return arrow.pa.RecordBatchReader.from_batches(schema, pulled)


def _columns_module() -> ModuleType:
    with needed_for("scan_log", "arrow"):
        from quire import columns
    return columns


def make_bounds(start: Place, end: Place) -> Bounds:
    """Return the bounds of a scan. Raises `InvalidRequestError` for an invalid place."""
    fields: dict[str, Any] = {}
    for place, (position, offset, time) in (
        (start, ("first", "first_offset", "first_ms")),
        (end, ("end", "end_offset", "end_ms")),
    ):
        if isinstance(place, Position):
            fields[position] = place
        elif isinstance(place, datetime):
            fields[time] = to_ms(place)
        else:
            check_offset(place)
            fields[offset] = place
    return Bounds(**fields)


def _check_offset_found(name: str, wanted: int, piece: Slice, span: Span) -> None:
    found = piece.batch.header.first_offset + piece.slots.start
    if found > wanted > 0:
        first = str(Position(span.segment, piece.entry, piece.slots.start))
        raise PositionTrimmedError(name, f"offset {wanted}", first)


def _pull(loop: asyncio.AbstractEventLoop, source: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield what an asynchronous generator of a loop yields, to any other thread."""
    try:
        while (item := _next(loop, source)) is not None:
            yield item
    finally:
        ending = _end(source)
        try:
            asyncio.run_coroutine_threadsafe(ending, loop)
        except RuntimeError:  # the loop was closed
            ending.close()


async def _end(source: AsyncGenerator[T, None]) -> None:
    await source.aclose()


def _next(loop: asyncio.AbstractEventLoop, source: AsyncGenerator[T, None]) -> T | None:
    """Return the next item of a generator of another thread's loop, None after the last one."""
    if _running_loop() is loop:
        raise InvalidRequestError(
            "a scan was read on the client's own event loop, which would wait for itself: read it "
            "in another thread, as in `await asyncio.to_thread(reader.read_all)`"
        )

    async def work() -> T | None:
        return await anext(source, None)

    taken = work()
    try:
        future = asyncio.run_coroutine_threadsafe(taken, loop)
    except RuntimeError:
        taken.close()
        raise HandleClosedError("the client of this scan") from None
    try:
        while True:
            try:
                return future.result(WAKE_SECONDS)
            except TimeoutError:
                if future.done():
                    return future.result()
                if loop.is_closed():
                    raise HandleClosedError("the client of this scan") from None
    except BaseException:
        if future.cancelled():  # by the end of the loop
            raise HandleClosedError("the client of this scan") from None
        future.cancel()
        raise


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
