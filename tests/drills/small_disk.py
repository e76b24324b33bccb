"""A bookie on a disk of a size that a drill chooses: `python -m tests.drills.small_disk bookie …`.

Runs production's command on production's disk. Only the question for its space is answered by
`DIRECTORY.free`, a file beside the bookie's directory with the free bytes; without the file, as the
file system says. So a drill fills the disks of some bookies, and not that of the machine.
"""

from __future__ import annotations

import sys
from pathlib import Path

from quire.cli.root import main as run_command
from quire.storage.disk import local as disk
from quire.storage.disk.local import LocalDisk
from quire.storage.disk.port import DiskSpace

_space = LocalDisk.space


def note_of(directory: Path) -> Path:
    """Return the file that says how much space a bookie's disk has."""
    return directory.with_name(f"{directory.name}.free")


async def _noted(mount: LocalDisk, directory: str = "") -> DiskSpace:
    found, note = await _space(mount, directory), note_of(mount.root)
    try:
        return DiskSpace(int(note.read_text()), found.total_bytes)
    except FileNotFoundError:
        return found


if __name__ == "__main__":
    vars(disk)["LocalDisk"].space = _noted
    sys.exit(run_command())
