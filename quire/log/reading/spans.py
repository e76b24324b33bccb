"""Reading many spans as one sequence: small ones are fetched ahead, several at a time.

A small segment costs round trips, for its metadata and its entries, and hardly any bytes. Thousands
of them, read one after the other, would wait for thousands of round trips.

What is fetched ahead is bounded by the sizes that the manifest states. A span that is larger, or
whose size is not known, is read when its turn comes, entry by entry.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final, TypeAlias

from quire.aio.tasks import Tasks
from quire.log.reading.span import Slice, Span

AHEAD_SPANS_MAX: Final = 16
"""Spans under way: round trips of 16 ms hide behind 1 ms of work for each span."""

AHEAD_BYTES_MAX: Final = 4 * 1024 * 1024
"""Stored bytes of the spans under way."""

ReadSpan: TypeAlias = Callable[[Span], AsyncGenerator[Slice, None]]


async def read_in_order(
    spans: Sequence[Span], read: ReadSpan
) -> AsyncGenerator[tuple[int, Slice], None]:
    """Yield the records of spans by entry, in order, each with the index of its span.

    Raises what `read` raises, after the spans before that one.
    """
    ahead = _Ahead(spans, read)
    try:
        for index, span in enumerate(spans):
            fetched = ahead.take(index)
            if fetched is not None:
                for piece in await fetched.result():
                    yield index, piece
                continue
            async with aclosing(read(span)) as slices:
                async for piece in slices:
                    yield index, piece
    finally:
        await ahead.stop()


class _Fetched:
    """A span that is read as a whole, before its turn."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._slices: list[Slice] = []
        self._error: Exception | None = None
        self._done = asyncio.Event()

    async def fetch(self, slices: AsyncGenerator[Slice, None]) -> None:
        try:
            async with aclosing(slices):
                async for piece in slices:
                    self._slices.append(piece)
        except Exception as error:
            self._error = error
        self._done.set()

    async def result(self) -> list[Slice]:
        """Wait for the records. Raises the error that ended the reading."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._slices


class _Ahead:
    """The spans that are fetched before their turn."""

    def __init__(self, spans: Sequence[Span], read: ReadSpan) -> None:
        self._spans = spans
        self._read = read
        self._tasks = Tasks()
        self._begun: deque[_Fetched] = deque()
        self._next = 0
        self._bytes = 0

    def take(self, index: int) -> _Fetched | None:
        """Return a span that was begun; None for a span that its reader reads itself."""
        self._begin()
        if self._next == index:
            self._next = index + 1  # too large to be fetched ahead
            return None
        found = self._begun.popleft()
        self._bytes -= found.size
        return found

    def _begin(self) -> None:
        while self._next < len(self._spans) and len(self._begun) < AHEAD_SPANS_MAX:
            span = self._spans[self._next]
            if span.size is None or self._bytes + span.size > AHEAD_BYTES_MAX:
                return
            fetched = _Fetched(span.size)
            self._tasks.start(fetched.fetch(self._read(span)), f"span of segment {span.segment}")
            self._begun.append(fetched)
            self._bytes += span.size
            self._next += 1

    async def stop(self) -> None:
        await self._tasks.stop()
