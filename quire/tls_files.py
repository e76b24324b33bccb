"""Files of TLS: whether they were replaced, and keys that have a password.

Certificates are renewed while a process runs. So each connection compares the stamp of the files
with the stamp of the files that were read, and reads them again if they differ.

Not here: whether a file can be used (quire/wire/certificates.py checks those of bookies and of
their clients).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from quire.errors import ConfigurationError

Stamp: TypeAlias = tuple[tuple[int, int, int], ...]
"""This changes when a file is replaced: inode, size and time of each file."""


def stamp_of(paths: Iterable[str | Path | None]) -> Stamp:
    """Return the stamp of files as they are now.

    Args:
        paths: the files; None stands for a file that is not used.
    """
    return tuple(_stamp_of(path) for path in paths if path is not None)


def _stamp_of(path: str | Path) -> tuple[int, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return status.st_ino, status.st_size, status.st_mtime_ns


def refuse_password(key: str | Path) -> str:
    """Answer OpenSSL, which has met a key with a password. Without an answer OpenSSL asks for the
    password at the terminal, and the event loop waits.

    Args:
        key: the file of the key.

    Raises:
        ConfigurationError: always; it names the file and the remedy.
    """
    raise ConfigurationError(f"{key} has a password: `openssl pkey` writes the key without it")
