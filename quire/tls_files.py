"""Files of TLS: whether they were replaced, and keys that have a password.

Certificates are renewed while a process runs. So each connection compares the stamp of the files
with the stamp of the files that were read, and reads them again if they differ. Files that cannot
be used change nothing. They are tried again at a measured pace: a client that reconnects in a loop
must neither read them nor complain of them each time.

Not here: whether a file can be used (quire/wire/certificates.py checks those of bookies and of
their clients).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from quire.errors import ConfigurationError

T = TypeVar("T")

RETRY_SECONDS: Final = 60.0
"""Files that were refused are read again so often, although they stay as they are: a certificate
begins to be valid, a clock is set, a shortage of descriptors passes.
"""

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
    except (OSError, ValueError):  # it cannot be looked at, or its name has a null character
        return (0, 0, 0)
    return status.st_ino, status.st_size, status.st_mtime_ns


class _UnusableFiles(NamedTuple):
    """Files that could not be used."""

    stamp: Stamp
    reason: str
    at: float


class RenewedFiles(Generic[T]):
    """A value made from files, such as a context of TLS, and made again after they were replaced.

    Any thread may ask: gRPC does from its own.

    Args:
        files: the files; None stands for a file that is not used.
        make: reads the files and returns the value; raises `ConfigurationError` for files that
            cannot be used.
        log: gets a warning of replaced files that cannot be used, once for each reason.
        clock: seconds.

    Raises:
        ConfigurationError: the files cannot be used now.
    """

    def __init__(
        self,
        files: Iterable[str | Path | None],
        make: Callable[[], T],
        log: logging.Logger,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._files = tuple(files)
        self._make = make
        self._log = log
        self._clock = clock
        self._refused: _UnusableFiles | None = None
        self._held: tuple[Stamp, T] = stamp_of(self._files), make()

    def newest(self) -> T:
        """Return the value of the files as they are now; the one before if they cannot be used.

        Reads the files only if they were replaced, or refused `RETRY_SECONDS` ago.
        """
        seen, made = self._held
        found = stamp_of(self._files)
        if found == seen and not self._is_worth_another_look():
            return made
        try:
            made = self._make()
        except ConfigurationError as error:
            self._refuse(found, str(error))
        else:
            self._refused = None
        self._held = found, made
        return made

    def _is_worth_another_look(self) -> bool:
        """Whether files were refused, and long ago; also after the clock was set."""
        refused = self._refused
        return refused is not None and abs(self._clock() - refused.at) >= RETRY_SECONDS

    def _refuse(self, stamp: Stamp, reason: str) -> None:
        """Note that files cannot be used, and say so unless the same was said before."""
        before, self._refused = self._refused, _UnusableFiles(stamp, reason, self._clock())
        if before is None or before[:2] != (stamp, reason):
            self._log.warning("certificates are not read again: %s", reason)


def refuse_password(key: str | Path) -> str:
    """Answer OpenSSL, which has met a key with a password. Without an answer OpenSSL asks for the
    password at the terminal, and the event loop waits.

    Args:
        key: the file of the key.

    Raises:
        ConfigurationError: always; it names the file and the remedy.
    """
    raise ConfigurationError(f"{key} has a password: `openssl pkey` writes the key without it")
