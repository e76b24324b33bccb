"""A stream as server-sent events: its records, then new ones, for a minute."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from quire.errors import QuireError
from quire.gateway.answers import GatewayError
from quire.gateway.durable.bodies import body_of, cursor_of, event
from quire.gateway.durable.refusals import ProtocolAnswerError
from quire.gateway.durable.state import StreamState, offset_text
from quire.gateway.durable.streams import FoundStream, Streams
from quire.log.records.position import Record

CONNECTION_SECONDS: Final = 60.0
"""Then the client connects again, so that proxies can join clients of one place."""

QUIET_SECONDS: Final = 15.0
JITTER_MAX: Final = 180
"""Intervals of a cursor: an hour."""

COMMENT: Final = b": quiet\n\n"


def cursor(given: str | None, now: float) -> str:
    """Return the cursor of an answer that waits; `now` is in Unix seconds."""
    return cursor_of(given, now, random.randint(1, JITTER_MAX))


async def events(
    streams: Streams,
    name: str,
    found: FoundStream,
    first: int | None,
    given: str | None,
    check: Callable[[], None],
    charge: Callable[[int, int], float],
) -> AsyncGenerator[bytes, None]:
    """Yield the events of one connection.

    `first` is an offset, or None for the first record. `check` raises once the reader may read no
    longer. `charge` counts bytes and records, and returns how many seconds to wait.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + CONNECTION_SECONDS
    at = first
    mark = cursor(given, streams.clock())
    try:
        while True:
            check()
            records: list[Record] = []
            if at is None or at < found.end:
                records = await streams.records(name, at, found.end)
                at = records[-1].offset + 1
            is_end = at >= found.end
            body = body_of(found.state, records)
            size, count = len(body), len(records)
            is_over = is_end and found.state.is_closed
            said = _said(found.state, body, _control(at, mark, is_end, is_over))
            body, records = b"", []  # else they are held while the client takes the part
            yield said
            said = b""  # the next part may be long in coming
            await asyncio.sleep(charge(size, count))
            if is_over:
                return
            if is_end:
                while not await streams.wait(name, at, min(QUIET_SECONDS, deadline - loop.time())):
                    if loop.time() >= deadline:
                        return
                    check()
                    yield COMMENT
            found = await streams.find(name)
            mark = cursor(mark, streams.clock())
    except ProtocolAnswerError:
        return  # it was deleted: the client hears it when it connects again
    except (QuireError, GatewayError) as error:
        yield event("error", str(error).encode())


def _said(state: StreamState, body: bytes, control: bytes) -> bytes:
    """Return the events of records and of the state after them, as one part: a reader that leaves
    has both, or neither.
    """
    if body in (b"", b"[]"):
        return control
    return event("data", body if state.is_text else base64.b64encode(body)) + control


def _control(at: int, mark: str, is_end: bool, is_closed: bool) -> bytes:
    fields: dict[str, Any] = {"streamNextOffset": offset_text(at)}
    if is_closed:
        fields["streamClosed"] = True
    else:
        fields["streamCursor"] = mark
    if is_end:
        fields["upToDate"] = True
    return event("control", json.dumps(fields, separators=(",", ":")).encode())
