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


class SharedFilesError(IntegrityError):
    """Another directory has the same files, as after `cp -al`. A bookie writes journal segments in
    place, so whichever directory is served, the other one is destroyed.
    """

    def __init__(self, directory: object, file: str, links: int) -> None:
        super().__init__(
            f"{directory}/{file} has {links} hard links, as `cp -al` makes them: a bookie that "
            "writes it destroys the other directories that have it; remove those, or keep copies "
            "without links, as `cp -a` makes them"
        )
        self.directory = directory
        self.file = file
        self.links = links
