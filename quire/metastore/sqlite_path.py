"""The path of a SQLite store: whether a file is there, and whether it is still the opened file.

Not here: the contents of the file (sqlite_file.py).
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Final
from urllib.parse import quote

from quire.errors import ConfigurationError

_SUFFIXES: Final = ("", "-wal", "-shm")
"""The file, its write-ahead log and the index of that, which exist while a process has it open."""


class Mode(StrEnum):
    """The effect of opening a missing file, in SQLite's words."""

    EXISTING = "rw"
    """It is an error: a mistyped path must not become an empty cluster."""

    CREATE = "rwc"
    """The file is created."""


def sqlite_uri(path: str, mode: Mode) -> str:
    """Return the URI that makes SQLite open an absolute path."""
    return f"file://{quote(os.fsencode(path))}?mode={mode}"


def check_mode(path: str, mode: Mode) -> None:
    """Raise `ConfigurationError` when there is certainly no file, and none is to be created."""
    if mode is Mode.CREATE:
        return
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise no_store(path) from None
    except OSError:
        return  # SQLite reports the defect of the path


def no_store(path: str) -> ConfigurationError:
    """Return the error for a path without a store."""
    return ConfigurationError(
        f"no metadata store at {path}: check the path; `quire cluster up`, "
        "`quire bookie format` and `quire metadata restore` make a new one"
    )


def places(path: str) -> list[tuple[int, int] | None]:
    """Return the files of a store as they are now: device and inode, None for an absent file."""
    return [_place(f"{path}{suffix}") for suffix in _SUFFIXES]


def _place(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
