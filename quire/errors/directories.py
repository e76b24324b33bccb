"""Errors about a directory as a whole, before anything in it is believed."""

from __future__ import annotations

from quire.errors.base import IntegrityError


class DirectoryInUseError(IntegrityError):
    """Another process works on a directory. Two would give two answers under one identity.

    Stop the other process, or use another directory. Removing lock files does not help: the lock is
    on the directory itself.
    """

    def __init__(self, directory: object, holder: str, pid: int | None = None) -> None:
        process = f"{holder} (pid {pid})" if pid else holder
        super().__init__(f"{directory} is in use by {process}: stop it, or use another directory")
        self.directory = directory
        self.pid = pid
