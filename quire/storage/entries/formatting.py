"""The first checkpoint, which says that a bookie never served, has to look like the truth.

A directory gets it when it is formatted, and it is overwritten before the bookie serves a client
(engine.py). If it is the only one left and something was ever written, the checkpoints that said so
are lost, and with them what only they knew: where the journal begins, which entry logs count, which
ledgers are doubtful.
"""

from __future__ import annotations

from typing import Final

from quire.errors import CorruptStorageError
from quire.storage.disk.port import Disk
from quire.storage.entries.checkpoint import FIRST, PATHS, Checkpoint
from quire.storage.entries.entry_log import ENTRIES, ENTRIES_SUFFIX
from quire.storage.entries.retired_file import PATHS as RETIRED
from quire.storage.journal.record import was_used
from quire.storage.journal.replay import load_segment
from quire.storage.journal.segments import JOURNAL, SEGMENT_SUFFIX, numbered

LATER: Final = PATHS[(FIRST.generation + 1) % len(PATHS)]


async def check_first(disk: Disk, bookie: str, checkpoint: Checkpoint) -> None:
    """Raise `CorruptStorageError` when a checkpoint is the first one and cannot be the last."""
    if checkpoint.position != FIRST.position:
        return
    if await _numbers(disk, ENTRIES, ENTRIES_SUFFIX):
        raise CorruptStorageError(LATER, "it is lost or damaged, and there are entry logs")
    if not set(RETIRED).isdisjoint(await disk.list()):
        raise CorruptStorageError(LATER, "it is lost or damaged, and there are retired ids")
    for number in await _numbers(disk, JOURNAL, SEGMENT_SUFFIX):
        data, _ = await load_segment(disk, bookie, number)
        if was_used(data):
            raise CorruptStorageError(LATER, f"it is lost or damaged, and segment {number} is used")


async def _numbers(disk: Disk, directory: str, suffix: str) -> list[int]:
    try:
        return numbered(await disk.list(directory), suffix)
    except FileNotFoundError:  # the bookie never started: it makes its directories then
        return []
