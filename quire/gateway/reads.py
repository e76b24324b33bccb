"""Reads: the records that are there, the first ones that come, or a stream without end.

A read never disturbs the log's writer, so every gateway answers it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractContextManager, aclosing, suppress
from typing import Final

from quire.aio.tasks import stop
from quire.aio.timing import time_limit
from quire.client import Client
from quire.errors import QuireError
from quire.gateway.answers import kind_of
from quire.gateway.bodies import event_of
from quire.gateway.consumers import OpenStream
from quire.log.records.position import LATEST, Record, Start

PAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Payloads of one answer, beyond its first record."""

QUIET_SECONDS: Final = 15.0
"""A stream without records says so as often, so that proxies do not end it."""


async def read_page(
    client: Client, name: str, start: Start, limit: int, wait: float
) -> list[Record]:
    """Return the records from a place on; wait for the first one if there is none.

    Args:
        client: the client.
        name: the log.
        start: where the first record is: not `LATEST`, which may be elsewhere for the next page.
        limit: how many records at most.
        wait: seconds to wait; 0 returns what is there.

    Raises:
        QuireError: the errors of `Client.read_log`.
    """
    found: list[Record] = []
    await _collect(found, client, name, start, limit)
    if found or wait <= 0:
        return found
    with suppress(TimeoutError):
        async with time_limit(wait), client.read_log(name, start, follow=True) as reader:
            async for record in reader:
                found.append(record)
                break
    if found:
        await _collect(found, client, name, found[-1].position.after, limit - len(found))
    return found


async def _collect(
    found: list[Record], client: Client, name: str, start: Start, limit: int
) -> None:
    """Add the records that are there, up to a number and a size."""
    size = 0
    if limit <= 0:
        return
    async with client.read_log(name, start) as reader:
        async for record in reader:
            found.append(record)
            size += len(record.payload)
            limit -= 1
            if not limit or size >= PAGE_BYTES_MAX:
                return


async def stream_events(
    client: Client, name: str, start: Start, check: Callable[[], None] = lambda: None
) -> AsyncGenerator[bytes, None]:
    """Yield the records of a log as server-sent events, from a place on, without end.

    `check` is called before each part; an error that it raises ends the stream, too.

    A record is asked for when the one before was sent: a slow consumer slows only itself. An error
    ends the stream with an event `error`.

    A stream from the latest place begins with the id of that place. So a browser that connects
    again before the first record misses none.
    """
    try:
        began = b""
        if start == LATEST:
            start = (await client.log_end(name)).position
            began = f"id: {start}\n".encode()
        async with (
            client.read_log(name, start, follow=True) as reader,
            aclosing(_with_pauses(aiter(reader), began)) as parts,
        ):
            async for part in parts:
                check()
                yield part
                del part  # the next one may be long in coming
    except QuireError as error:
        text = str(error).replace("\n", " ")
        yield f"event: error\ndata: {kind_of(error).code}: {text}\n\n".encode()


async def paced(
    events: AsyncGenerator[bytes, None],
    charge: Callable[[int, int], float],
    opening: Callable[[], AbstractContextManager[OpenStream]],
) -> AsyncGenerator[bytes, None]:
    """Yield the parts of a stream of events, as quickly as the quota of its reader allows.

    `charge` counts bytes and records, and returns how many seconds to wait. `opening` has the
    stream open among all streams of the gateway.
    """
    with opening() as stream:
        async with aclosing(events):
            async for part in events:
                size, is_record = len(part), part.startswith(b"id: ")
                with stream.handing():
                    yield part
                del part  # the next one may be long in coming
                await asyncio.sleep(charge(size, is_record))


async def _with_pauses(records: AsyncIterator[Record], began: bytes) -> AsyncGenerator[bytes, None]:
    yield b": the stream begins\n" + began + b"\n"
    coming: asyncio.Future[Record] | None = None
    try:
        while True:
            if coming is None:
                coming = asyncio.ensure_future(anext(records))
            await asyncio.wait([coming], timeout=QUIET_SECONDS)
            if not coming.done():
                yield b": quiet\n\n"
                continue
            done, coming = coming, None
            try:
                part = event_of(done.result())
            except StopAsyncIteration:  # the log is sealed
                yield b"event: end\ndata: the log is sealed\n\n"
                return
            del done  # else the record is held until the next one comes
            yield part
            del part
    finally:
        if coming is not None:
            await stop(coming)
