"""Reading a long stretch: several fetches under way, delivered in order, within a bound of bytes.

Answers are cut by bytes, so the ids in an answer are not known in advance. The stretch is divided
into pieces that should fill an answer each, by the mean payload seen last; a piece that comes
back cut is continued when the consumer reaches it. So at most `pieces` answers wait at any time,
whatever the entries' sizes: the bound holds, and only its use varies.

Cancelling or closing the generator ends every fetch it started.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from quire.bookie import READ_ANSWER_BYTES_MAX
from quire.entry import HEADER, Entry, EntryId
from quire.ledger.options import LedgerOptions

PIECES: Final = 4
"""Fetches under way. Four keep a link busy while one answer is verified and consumed."""

PAYLOAD_BYTES_GUESS: Final = 1024
"""Mean payload of a ledger before its first answer."""

FRAME_OVERHEAD: Final = HEADER.size + 16

Fetch = Callable[[EntryId, EntryId, int], Awaitable[list[Entry]]]
"""fetch(first, last, bytes_max): verified entries from `first` on, at least one."""


async def read_ahead(
    fetch: Fetch,
    first: EntryId,
    last: EntryId,
    options: LedgerOptions,
    payload_bytes: int = PAYLOAD_BYTES_GUESS,
) -> AsyncGenerator[list[Entry], None]:
    """Yield entries first..last in order, as they come. Raises what `fetch` raises."""
    bytes_max = max(1, min(READ_ANSWER_BYTES_MAX, options.read_ahead_bytes // PIECES))
    pieces: deque[tuple[EntryId, asyncio.Task[list[Entry]]]] = deque()
    following = first

    def start(begin: EntryId, end: EntryId) -> tuple[EntryId, asyncio.Task[list[Entry]]]:
        return end, asyncio.create_task(_run(fetch, begin, end, bytes_max))

    try:
        while pieces or following <= last:
            while len(pieces) < PIECES and following <= last:
                count = max(1, bytes_max // (payload_bytes + FRAME_OVERHEAD))
                end = min(last, following + count - 1)
                pieces.append(start(following, end))
                following = end + 1
            end, task = pieces[0]
            entries = await task
            pieces.popleft()
            if entries[-1].entry < end:
                pieces.appendleft(start(entries[-1].entry + 1, end))
            payload_bytes = mean_payload(entries)
            yield entries
    finally:
        tasks = [task for _, task in pieces]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def mean_payload(entries: list[Entry]) -> int:
    """Return the mean payload in bytes, from the ledger lengths in the headers."""
    total = entries[-1].length - entries[0].length + len(entries[0].payload)
    return max(0, total) // len(entries)


async def _run(fetch: Fetch, first: EntryId, last: EntryId, bytes_max: int) -> list[Entry]:
    """Fetch, unless the task is cancelled before it runs: then nothing was begun."""
    return await fetch(first, last, bytes_max)
