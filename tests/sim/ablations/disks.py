"""Safeguards of a disk: one process has it, nothing is written again after a failed sync, and a
bookie starts on a disk that is full.
"""

from __future__ import annotations

import errno
from typing import Any

from quire.storage.entries import reserve
from quire.storage.journal import journal, segments
from tests.sim.ablations.patch import Patch
from tests.sim.disk import SimDisk, SimFile, SimMount


def write_a_journal_again() -> list[Patch]:
    return _try_again("journal")


def write_an_entry_log_again() -> list[Patch]:
    return _try_again("entries")


def write_a_checkpoint_again() -> list[Patch]:
    return _try_again("checkpoint")


def lock_no_directory() -> list[Patch]:
    return [(SimDisk, "check_lock", lambda self: None)]


def _try_again(room: str) -> list[Patch]:
    """Whatever fails for the sync of a file of this room, or of its directory, is done once more.

    The port is patched, so that all of production's writes do so: those of today and of tomorrow.
    """
    write, sync, sync_directory = SimFile.write, SimFile.sync, SimMount.sync_directory

    async def write_again(self: Any, offset: int, data: Any, *, sync: bool = False) -> None:
        try:
            await write(self, offset, data, sync=sync)
        except OSError as error:
            if error.errno != errno.EIO or not self._path.startswith(room):
                raise
            await write(self, offset, data, sync=sync)

    async def sync_again(self: Any) -> None:
        try:
            await sync(self)
        except OSError:
            if not self._path.startswith(room):
                raise
            await sync(self)

    async def sync_directory_again(self: Any, directory: str = "") -> None:
        try:
            await sync_directory(self, directory)
        except OSError:
            if not (directory or "checkpoint").startswith(room):
                raise
            await sync_directory(self, directory)

    return [
        (SimFile, "write", write_again),
        (SimFile, "sync", sync_again),
        (SimMount, "sync_directory", sync_directory_again),
    ]


def start_without_a_reserve() -> list[Patch]:
    """The bookie believes in a reserve that is not on its disk."""

    async def restore(self: Any) -> None:
        self._held.update(path for _, path in self._wanted)

    async def remove(self: Any, directory: str, path: str) -> None:
        self._held.discard(path)

    return [(reserve.Reserve, "restore", restore), (reserve.Reserve, "_remove", remove)]


def start_without_a_spare() -> list[Patch]:
    return [(segments, "KEPT_BACK", 0)]


def take_entries_on_a_full_disk() -> list[Patch]:
    def room_for_runs(self: Any, room: int) -> int:
        return room

    return [(journal.Journal, "_room_for_runs", room_for_runs)]
