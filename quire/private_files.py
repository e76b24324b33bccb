"""Modes of the files and directories that hold a cluster's data: for their owner alone.

Entries, access keys and metadata are in plain bytes. With the modes that a umask of 022 gives,
every user of the machine could read them, and with a umask of 0 replace them. So a mode is stated
wherever such a file is made, and what an older version made is named with its remedy.

The mode of an existing directory is never changed: an operator may have granted a group access.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
"""The bits of a mode that grant something to a group or to every user."""


def make_directories(directory: Path) -> list[Path]:
    """Make a directory and its missing parents, each for its owner alone.

    Args:
        directory: the directory; it may exist.

    Returns:
        The directories that were missing, parents first.

    Raises:
        OSError: one of them cannot be made, or a file has its name.
    """
    missing = [each for each in (directory, *directory.parents) if not each.exists()][::-1]
    for each in missing:
        each.mkdir(DIRECTORY_MODE, exist_ok=True)
    directory.mkdir(DIRECTORY_MODE, exist_ok=True)
    return missing


def make_file(path: str) -> None:
    """Make an empty file for its owner alone, unless it exists or cannot be made.

    No descriptor is opened: closing one would give up the locks that another connection of this
    process has on the file (POSIX). A symbolic link is followed, as SQLite follows it.

    Args:
        path: the file.
    """
    with suppress(OSError):
        os.mknod(os.path.realpath(path), stat.S_IFREG | FILE_MODE)


def complaint(path: Path) -> str | None:
    """Tell what is wrong with the mode of a file or directory.

    Args:
        path: the file or directory.

    Returns:
        The mode and the command that mends it; None for a mode that is narrow enough, and for a
        path that cannot be looked at.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    mode = stat.S_IMODE(status.st_mode)
    if not mode & OTHERS:
        return None
    wanted = DIRECTORY_MODE if stat.S_ISDIR(status.st_mode) else FILE_MODE
    return (
        f"other users of this machine have rights to {path} (mode {mode:04o}): "
        f"run `chmod {wanted:04o} {path}`"
    )
