"""Several spans read as one: in order, small ones ahead, bounded, and nothing runs on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Final

import pytest

from quire.errors import NoSuchLedgerError
from quire.log.reading.bounds import EVERYTHING
from quire.log.reading.span import Slice, Span
from quire.log.reading.spans import AHEAD_BYTES_MAX, AHEAD_SPANS_MAX, read_in_order
from quire.log.records.batch import decode_batch, encode_batch

SPAN: Final = Span("orders", "id", 1, 7, 1, 0, 1, range(2), 100, EVERYTHING)
SECONDS: Final = 1.0
"""Of the loop's virtual time, for one span."""


def spans(*sizes: int | None) -> list[Span]:
    return [replace(SPAN, segment=number, bytes=size) for number, size in enumerate(sizes)]


class Segments:
    """Takes its time for every span, and counts those that are open."""

    def __init__(self, broken: int | None = None) -> None:
        self.broken = broken
        self.begun: list[int] = []
        self.open = 0
        self.open_max = 0

    async def read(self, span: Span) -> AsyncGenerator[Slice, None]:
        self.begun.append(span.segment)
        self.open += 1
        self.open_max = max(self.open, self.open_max)
        try:
            await asyncio.sleep(SECONDS)
            if span.segment == self.broken:
                raise NoSuchLedgerError(span.ledger)
            for entry in (0, 1):
                body = encode_batch([b"x"], first_offset=entry, epoch=1, timestamp_ms=0)
                yield Slice(entry, range(1), decode_batch(body, 7, entry))
        finally:
            self.open -= 1


async def all_of(wanted: list[Span], segments: Segments) -> list[tuple[int, int]]:
    pieces = read_in_order(wanted, segments.read)
    return [(index, piece.entry) async for index, piece in pieces]


async def test_spans_come_in_order_whatever_their_sizes() -> None:
    segments = Segments()
    wanted = spans(10, 10, None, 10, 2 * AHEAD_BYTES_MAX, 10)
    found = await all_of(wanted, segments)
    assert found == [(number, entry) for number in range(6) for entry in (0, 1)]
    assert segments.open == 0


async def test_small_spans_wait_together() -> None:
    segments, started = Segments(), asyncio.get_running_loop().time()
    await all_of(spans(*[10] * 160), segments)
    assert asyncio.get_running_loop().time() - started <= 160 / AHEAD_SPANS_MAX * SECONDS + SECONDS
    assert segments.open_max == AHEAD_SPANS_MAX


@pytest.mark.parametrize("size", [AHEAD_BYTES_MAX // 2 + 1, None])
async def test_what_is_large_or_unknown_waits_for_its_turn(size: int | None) -> None:
    segments = Segments()
    await all_of(spans(*[size] * 5), segments)
    assert segments.open_max == 1


async def test_an_error_comes_in_its_turn() -> None:
    segments = Segments(broken=2)
    async with aclosing(read_in_order(spans(*[10] * 9), segments.read)) as pieces:
        found = [(await anext(pieces))[0] for _ in range(4)]
        assert found == [0, 0, 1, 1]
        with pytest.raises(NoSuchLedgerError):
            await anext(pieces)
    assert segments.open == 0


async def test_an_end_in_the_middle_ends_what_was_fetched_ahead() -> None:
    segments = Segments()
    async with aclosing(read_in_order(spans(*[10] * 9), segments.read)) as pieces:
        await anext(pieces)
        assert len(segments.begun) == 9
    assert segments.open == 0
