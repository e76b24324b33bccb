"""What readers fetched lately.

The unit is a *stretch*: neighbouring chunks of one ledger in one file, as one read of the disk
brought them. The one used longest ago goes first. Chunks are verified when they are first used, and
once. No I/O here (entry_files.py reads).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quire.entry import LedgerId
from quire.storage.entries.entry_log import ChunkAt
from quire.storage.entries.stored_run import StoredRun, verify

FRAME_OVERHEAD_BYTES: Final = 16
"""Where one frame is, for a chunk that was looked at frame by frame."""


class CachedStretch:
    """Chunks that follow each other in one file, and their bytes once they are there."""

    __slots__ = ("_runs", "_verified", "bytes", "chunks", "data", "error", "size")

    def __init__(self, chunks: Sequence[ChunkAt]) -> None:
        self.chunks: Final = chunks
        self.bytes: Final[int] = chunks[-1].offset + chunks[-1].size - chunks[0].offset
        frames = sum(chunk.entries for chunk in chunks)
        self.size: Final[int] = self.bytes + FRAME_OVERHEAD_BYTES * frames
        """Its cost in memory."""
        self.data: bytes | None = None
        self.error: OSError | None = None
        self._runs: dict[int, StoredRun] = {}
        self._verified: set[int] = set()

    def run(self, ledger: LedgerId, chunks: Sequence[ChunkAt]) -> StoredRun:
        """Return neighbouring chunks as one run, verified. Raises `CorruptEntryError` naming the
        first entry of a chunk.
        """
        assert self.data is not None
        base = self.chunks[0].offset
        for chunk in chunks:
            if chunk.offset not in self._verified:
                at = chunk.offset - base
                verify(ledger, chunk, self.data[at : at + chunk.size])
                self._verified.add(chunk.offset)
        return StoredRun(ledger, chunks, self.data, chunks[0].offset - base)

    def scanned(self, ledger: LedgerId, chunk: ChunkAt) -> StoredRun:
        """Return a chunk, verified and with its frames found. Raises `CorruptEntryError`."""
        run = self._runs.get(chunk.offset)
        if run is None:
            run = self.run(ledger, [chunk])
            run.scan()
            self._runs[chunk.offset] = run
        return run


@dataclass(slots=True)
class ReadCounts:
    """What readers of entry logs cost since the start, in chunks."""

    chunks_cached: int = 0
    """Found in the cache."""
    chunks_fetched: int = 0
    bytes_ahead: int = 0
    """Bytes announced to the disk before a reader asked for them."""


class ReadCache:
    """Stretches, the one used longest ago first; at most `bytes_max` together."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max: Final = bytes_max
        self.bytes = 0
        self.counts: Final = ReadCounts()
        self._stretches: OrderedDict[CachedStretch, None] = OrderedDict()
        self._of: dict[tuple[int, int], CachedStretch] = {}
        """By file and offset of each chunk."""

    def __contains__(self, chunk: ChunkAt) -> bool:
        return (chunk.file, chunk.offset) in self._of

    def find(self, chunk: ChunkAt) -> CachedStretch | None:
        """Return the stretch that holds a chunk, used just now."""
        stretch = self._of.get((chunk.file, chunk.offset))
        if stretch is not None:
            self._stretches.move_to_end(stretch)
        return stretch

    def put(self, stretch: CachedStretch) -> None:
        """Keep a stretch in the place of stretches that overlap it, unless it is too large."""
        if stretch.size > self.bytes_max:
            return
        for chunk in stretch.chunks:
            before = self._of.get((chunk.file, chunk.offset))
            if before is not None:
                self.forget(before)
            self._of[chunk.file, chunk.offset] = stretch
        self._stretches[stretch] = None
        self.bytes += stretch.size
        while self.bytes > self.bytes_max:
            self.forget(next(iter(self._stretches)))

    def forget(self, stretch: CachedStretch) -> None:
        """Give a stretch up, if it is kept."""
        if stretch in self._stretches:
            del self._stretches[stretch]
            self.bytes -= stretch.size
            for chunk in stretch.chunks:
                self._of.pop((chunk.file, chunk.offset), None)

    def drop(self, number: int) -> None:
        """Give up everything of a file."""
        for stretch in [each for each in self._stretches if each.chunks[0].file == number]:
            self.forget(stretch)
