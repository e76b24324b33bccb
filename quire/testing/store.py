"""The metadata store of a cluster in memory, with a line that can be cut."""

from __future__ import annotations

from quire.errors import StoreUnavailableError
from quire.metastore.memory import MemoryStore, MemoryTree


class SwitchedTree:
    """A tree that can cut its clients off, and end their sessions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tree = MemoryTree()
        self.is_cut = False

    def open(self) -> SwitchedStore:
        """Return a new client's store over the tree."""
        return SwitchedStore(self)


class SwitchedStore(MemoryStore):
    """One client's store. While the line is cut every call raises `StoreUnavailableError`."""

    def __init__(self, switched: SwitchedTree) -> None:
        super().__init__(switched.tree)
        self._switched = switched

    @property
    def uri(self) -> str:
        return f"memory://{self._switched.name}"

    async def _turn(self) -> None:
        await super()._turn()
        if self._switched.is_cut:
            raise StoreUnavailableError(self.uri, "it was cut off by the test")
