"""Reading entry-log files: chunks fetched in as few reads as possible, each verified.

A bounded number of files is held open; the least recently used goes first. (Closing a file lets
reads under way finish.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from quire.entry import LedgerId
from quire.errors import CorruptEntryError, InvalidRequestError
from quire.run import ScannedRun, scan_run
from quire.storage.disk import Disk, File
from quire.storage.entry_log import ChunkAt, entries_path
from quire.storage.record import crc32c


class EntryFiles:
    """The open entry-log files of a bookie."""

    def __init__(self, disk: Disk, open_files_max: int) -> None:
        self._disk = disk
        self._open_files_max = open_files_max
        self._files: dict[int, File] = {}

    async def read(
        self, ledger: LedgerId, chunks: Sequence[ChunkAt]
    ) -> tuple[list[ScannedRun], CorruptEntryError | None]:
        """Return the chunks' runs, in order, up to one that is damaged or cannot be read."""
        found: list[ScannedRun] = []
        try:
            for group in _adjacent(chunks):
                data = await self._fetch(group)
                for chunk in group:
                    start = chunk.offset - group[0].offset
                    found.append(verified(ledger, chunk, data[start : start + chunk.size]))
        except CorruptEntryError as error:
            return found, error
        except OSError as error:
            reason = f"its file cannot be read: {error}"
            return found, CorruptEntryError(ledger, chunks[len(found)].first, reason)
        return found, None

    async def _fetch(self, group: Sequence[ChunkAt]) -> bytes:
        file = await self._open(group[0].file)
        end = group[-1].offset + group[-1].size
        return await file.read(group[0].offset, end - group[0].offset)

    async def _open(self, number: int) -> File:
        file = self._files.pop(number, None)
        if file is None:
            file = await self._disk.open(entries_path(number))
            raced = self._files.pop(number, None)
            if raced is not None:
                await file.close()
                file = raced
        self._files[number] = file
        if len(self._files) > self._open_files_max:
            await self._files.pop(next(iter(self._files))).close()
        return file

    async def drop(self, number: int) -> None:
        """Remove a file that no checkpoint lists any more."""
        file = self._files.pop(number, None)
        if file is not None:
            await file.close()
        await self._disk.unlink(entries_path(number))

    async def close(self) -> None:
        while self._files:
            await self._files.popitem()[1].close()


def _adjacent(chunks: Sequence[ChunkAt]) -> Iterable[list[ChunkAt]]:
    """Group chunks that follow each other in one file."""
    group = list(chunks[:1])
    for before, after in pairwise(chunks):
        if after.file != before.file or after.offset != before.offset + before.size:
            yield group
            group = []
        group.append(after)
    if group:
        yield group


def verified(ledger: LedgerId, chunk: ChunkAt, data: bytes) -> ScannedRun:
    """Return a chunk's run. Raises `CorruptEntryError` when it is not what the index says."""
    if len(data) != chunk.size or crc32c(data) != chunk.crc:
        where = f"bytes {chunk.offset} to {chunk.offset + chunk.size} of entry log {chunk.file}"
        raise CorruptEntryError(ledger, chunk.first, f"{where} fail their checksum")
    try:
        run = scan_run(data)
    except InvalidRequestError as error:
        raise CorruptEntryError(ledger, chunk.first, f"its chunk is no run: {error}") from error
    if run.ledger != ledger:
        raise CorruptEntryError(ledger, chunk.first, f"its chunk is of ledger {run.ledger}")
    return run
