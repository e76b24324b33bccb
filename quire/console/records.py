"""Records of a log for a page: a search from a place on, and a live tail.

A payload is shown as text if it is text, else as hexadecimal digits, and cut at `SHOWN_BYTES`. The
console has no passwords and no keys: records that need one stay closed, and the page says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from quire.aio.tasks import stop
from quire.aio.timing import time_limit
from quire.client import Client
from quire.console import words
from quire.console.views.paging import ROWS_MAX
from quire.errors import PositionTrimmedError, QuireError
from quire.log.records.position import BEGINNING, LATEST, Record, Start
from quire.places import parse_place

SHOWN_BYTES: Final = 2_048
"""The part of a payload that is shown, beside its size."""

ATTRIBUTES_CHARS: Final = 200
"""The part of keys and headers that is shown."""

READ_SECONDS: Final = 10.0

PAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Payloads that are read for one page."""

QUIET_SECONDS: Final = 15.0
"""A stream without records says so as often, so that proxies do not end it."""


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One record. `form` is `text` or `hex`; `is_cut` says that the payload is longer.
    `attributes` are its key and headers in one line.
    """

    offset: int
    position: str
    time: str
    epoch: int
    txid: int | None
    attributes: str
    size: int
    form: str
    payload: str
    is_cut: bool


@dataclass(frozen=True, slots=True)
class RecordsPage:
    """Records of a log from a place on. `next` goes on; empty at the end."""

    log: str
    start: str
    rows: Sequence[RecordRow]
    next: str
    trouble: str
    at_ms: int


def record_row(record: Record) -> RecordRow:
    """Return a record as it is shown. Pure."""
    shown = record.payload[:SHOWN_BYTES]
    is_cut = len(record.payload) > SHOWN_BYTES
    try:
        form, payload = "text", shown.decode()
    except UnicodeDecodeError as error:
        if is_cut and error.start >= len(shown) - 3:  # the cut is within a character
            form, payload = "text", shown[: error.start].decode()
        else:
            form, payload = "hex", shown.hex(" ")
    if any(ord(each) < 32 and each not in "\n\t\r" for each in payload):
        form, payload = "hex", shown.hex(" ")
    return RecordRow(
        record.offset,
        str(record.position),
        words.moment(record.timestamp_ms),
        record.epoch,
        record.txid,
        _attributes(record),
        len(record.payload),
        form,
        payload,
        is_cut,
    )


def _attributes(record: Record) -> str:
    key = () if record.key is None else (("key", record.key),)
    line = "  ".join(
        f"{name}={(value or b'').decode(errors='backslashreplace')}"
        for name, value in (*key, *record.headers)
    )
    return line if len(line) <= ATTRIBUTES_CHARS else f"{line[:ATTRIBUTES_CHARS]}…"


def start_of(text: str) -> Start:
    """Return the place that a text names; a time without a zone is UTC. Pure.

    Raises `InvalidRequestError`.
    """
    place = parse_place(text.strip() or "beginning")
    if isinstance(place, datetime) and place.tzinfo is None:
        return place.replace(tzinfo=UTC)
    return place


async def search(client: Client, log: str, start: str, now_ms: int) -> RecordsPage:
    """Return a page of records from a place on.

    A place that is wrong, and an error of reading, are part of the result. Raises nothing of
    quire's.
    """
    found: list[Record] = []
    trouble = ""
    try:
        async with time_limit(READ_SECONDS):
            await _collect(found, client, log, start_of(start))
    except QuireError as error:
        trouble = str(error)
    except TimeoutError:
        trouble = f"the log did not answer within {READ_SECONDS:g} s"
    following = str(found[-1].position.after) if len(found) == ROWS_MAX else ""
    rows = [record_row(each) for each in found]
    return RecordsPage(log, start, rows, following, trouble, now_ms)


async def _collect(found: list[Record], client: Client, log: str, start: Start) -> None:
    if start == LATEST:  # the last page
        end = (await client.log_end(log)).offset
        start = end - ROWS_MAX if end > ROWS_MAX else BEGINNING
        try:
            await _read(found, client, log, start)
        except PositionTrimmedError:
            found.clear()
            await _read(found, client, log, BEGINNING)
    else:
        await _read(found, client, log, start)


async def _read(found: list[Record], client: Client, log: str, start: Start) -> None:
    size = 0
    async with client.read_log(log, start) as reader:
        async for record in reader:
            found.append(record)
            size += len(record.payload)
            if len(found) == ROWS_MAX or size >= PAGE_BYTES_MAX:
                return


async def follow(
    client: Client, log: str, start: Start, stopping: asyncio.Event
) -> AsyncGenerator[Record | None, None]:
    """Yield the records of a log from a place on, and None now and then while it is quiet.

    It ends when the log is sealed, or `stopping` is set. Raises the errors of reading.
    """
    async with (
        client.read_log(log, start, follow=True) as reader,
        aclosing(_with_pauses(aiter(reader), stopping)) as records,
    ):
        async for record in records:
            yield record


async def _with_pauses(
    records: AsyncIterator[Record], stopping: asyncio.Event
) -> AsyncGenerator[Record | None, None]:
    coming: asyncio.Future[Record] | None = None
    ending = asyncio.ensure_future(stopping.wait())
    try:
        while not stopping.is_set():
            if coming is None:
                coming = asyncio.ensure_future(anext(records))
            both = (coming, ending)
            await asyncio.wait(both, timeout=QUIET_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                yield None
                continue
            done, coming = coming, None
            try:
                record = done.result()
            except StopAsyncIteration:  # the log is sealed
                return
            yield record
    finally:
        await stop(ending, *([] if coming is None else [coming]))
