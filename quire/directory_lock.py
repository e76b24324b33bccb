"""One directory, one process: a lock on the directory itself.

The lock is an advisory `flock` of the directory's own descriptor. It belongs to the directory, not
to a file in it, so removing or replacing a file lets no second process in; a directory that is
renamed takes its lock along, and the kernel gives the lock up when its holder ends. A child process
does not keep it: descriptors are closed on exec, and in the child after a fork.

A file system without locks on directories (NFS) answers with an error. There the lock file that the
caller keeps is the only protection, and a warning says so.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from quire.errors import DirectoryInUseError

_log = logging.getLogger(__name__)
_held: set[int] = set()

LOCKS: Final = Path("/proc/locks")

UNSUPPORTED: Final = frozenset({errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL})
"""What `flock` says where directories cannot be locked."""


def lock_directory(directory: Path, purpose: str) -> int:
    """Open a directory and lock it for this process.

    Args:
        directory: an existing directory.
        purpose: what uses the directory, as the error calls it: "another bookie process".

    Returns:
        The descriptor that holds the lock; `unlock_directory` gives it up.

    Raises:
        DirectoryInUseError: another open descriptor holds the lock. Nothing was waited for.
        OSError: the directory cannot be opened.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = find_holder(os.fstat(descriptor), _locks())
        os.close(descriptor)
        raise DirectoryInUseError(directory, purpose, holder) from None
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            os.close(descriptor)
            raise
        _log.warning("%s cannot be locked (%s): see that one process uses it", directory, error)
    _held.add(descriptor)
    return descriptor


def unlock_directory(descriptor: int) -> None:
    """Give up the lock that `lock_directory` returned."""
    _held.discard(descriptor)
    os.close(descriptor)


def _close_in_child() -> None:
    """A forked child shares the open file, and would hold the lock after its parent has ended."""
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)


def _locks() -> str:
    try:
        return LOCKS.read_text()
    except OSError:
        return ""


def find_holder(status: os.stat_result, locks: str) -> int | None:
    """Return the process that holds the lock of a file, if it is known here.

    Args:
        status: what `stat` says of the file.
        locks: the text of `/proc/locks`: `1: FLOCK ADVISORY WRITE 4711 fd:01:1234 0 EOF`.

    Returns:
        The process id, or None when the holder is in another pid namespace or not listed.
    """
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in locks.splitlines():
        fields = line.split()
        if fields[1:2] == ["FLOCK"] and device in fields:
            holder = int(fields[fields.index(device) - 1])
            return holder if holder > 0 else None
    return None
