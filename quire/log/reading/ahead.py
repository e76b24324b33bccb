"""Segments that a reader opens ahead: the small sealed ones after the segment that it reads.

To open a segment costs a question to the metadata store, and its first entries one to a bookie. A
log of many small segments would make its reader wait twice for each. So a reader that passes from
segment to segment opens the next ones at the same time, and has their first entries at hand.

Work ahead is bounded in segments and bytes. A sealed segment never changes, so entries read early
are those that a reader would have read later. An error ahead is not reported: the reader opens the
segment again in its turn, with its own patience, and meets the error there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from quire.aio.tasks import Tasks, stop
from quire.errors import QuireError
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.pages_at_hand import segment_from
from quire.log.manifest.segment import Segment
from quire.log.reading.segment_reader import SegmentReader

MOST: Final = 16
"""Segments opened ahead."""

BYTES: Final = 1 << 20
"""Payload bytes of the segments opened ahead."""


class SegmentsAhead:
    """The segments opened ahead of one reader, by number."""

    def __init__(self, opener: Callable[[Segment], Awaitable[SegmentReader]]) -> None:
        self._opener = opener
        self._tasks = Tasks()
        self._openings: dict[int, _SegmentAhead] = {}

    async def begin(self, manifest: LogManifest, number: int) -> None:
        """Open the small sealed segments of a manifest, from a number on, up to the bounds.

        Does nothing while half of the bound is ahead. Raises no `QuireError`: then fewer segments
        are ahead.
        """
        if len(self._openings) > MOST // 2:
            return
        count = size = 0
        with suppress(QuireError):  # of a page, which the reader needs when it comes there
            while count < MOST:
                segment = await segment_from(manifest, number)
                if segment is None or segment.end is None:
                    return
                count, size = count + 1, size + segment.end.bytes
                if size > BYTES:
                    return
                if segment.number not in self._openings:
                    self._openings[segment.number] = self._start(segment)
                number = segment.number + 1

    def _start(self, segment: Segment) -> _SegmentAhead:
        opening = _SegmentAhead(segment)
        opening.task = self._tasks.start(opening.run(self._opener), "open a segment ahead")
        return opening

    async def take(self, segment: Segment) -> SegmentReader | None:
        """Return the reader of a segment that was opened ahead, at its first entry.

        Readers of segments with lower numbers are closed. None if this segment was not opened, or
        not with success.
        """
        for number in [each for each in self._openings if each < segment.number]:
            await self._drop(number)
        opening = self._openings.get(segment.number)
        if opening is None:
            return None
        if opening.task is not None:
            await asyncio.wait([opening.task])
        del self._openings[segment.number]
        if opening.segment == segment:
            return opening.reader
        await opening.close()
        return None

    async def close(self) -> None:
        """End the openings under way, and close all readers."""
        await self._tasks.stop()
        for number in list(self._openings):
            await self._drop(number)

    async def _drop(self, number: int) -> None:
        await self._openings.pop(number).close()


class _SegmentAhead:
    """One segment being opened, then its reader."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.reader: SegmentReader | None = None
        self.task: asyncio.Task[None] | None = None

    async def run(self, opener: Callable[[Segment], Awaitable[SegmentReader]]) -> None:
        with suppress(QuireError):  # the reader opens the segment again, and meets the error
            reader = await opener(self.segment)
            try:
                await reader.start(0)
                await reader.fetch()
            except BaseException:
                await reader.close()
                raise
            self.reader = reader

    async def close(self) -> None:
        if self.task is not None:
            await stop(self.task)
        reader, self.reader = self.reader, None
        if reader is not None:
            await reader.close()
