"""A cluster of real bookie processes for the tests of applications; names as in `MemoryCluster`."""

from __future__ import annotations

from quire.sync.cluster import SyncLocalCluster


class ProcessCluster(SyncLocalCluster):
    """`quire.sync.SyncLocalCluster` as tests use it: in a temporary directory, four bookies.

    Args:
        bookies: how many processes are started.

    `kill`, `restart`, `pause`, `resume` and `store_uri` work as in `MemoryCluster`. A line cannot
    be cut here: pause the bookie. Starting takes about a second. Leaving the block ends every
    process and removes the directory.
    """

    def __init__(self, bookies: int = 4) -> None:
        super().__init__(None, bookies)
        self._size = bookies

    def heal(self) -> None:
        """Restart killed bookies, and resume paused ones."""
        for index in range(self._size):
            state = self.state(index)
            if state == "paused":
                self.resume(index)
            elif state == "exited":
                self.restart(index)
