"""A cluster in this process: reference bookies around a metadata tree, all in memory.

    with MemoryCluster() as cluster:
        async with quire.connect(cluster.store_uri) as client: ...

Production's client runs unchanged over it: only bookies' servers, the network and the metadata
server are replaced. Making one takes less than a millisecond.

Bookies are counted from 0 on. Entries and metadata live as long as the cluster: a bookie that is
killed and restarted has the entries that it acknowledged. A client waits a second for a silent
bookie.

Not here: disks and their faults, clocks, garbage collection. quire's simulator covers those.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from quire.bookie import BookieAddress
from quire.errors import ConfigurationError
from quire.labels import NOWHERE, Labels
from quire.ledger.links import MEMORY, offer_bookie, withdraw_bookie
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER, bookie_path
from quire.metastore.levels import SPEAKS
from quire.metastore.memory import MemoryTree
from quire.metastore.registration import encode_registration
from quire.metastore.shared import loop_of, offer_tree, withdraw_tree
from quire.testing.link import LineState, SwitchedBookie
from quire.testing.store import SwitchedTree

_numbers: Final = itertools.count(1)

T = TypeVar("T")


class MemoryCluster:
    """A cluster in memory. A context manager, plain and asynchronous; `close` ends it.

    Args:
        bookies: how many bookies are registered, at least 1. Four let one die while new ledgers
            of three copies are made.
        name: the part of the store's URI after `memory://`; unique within the process. The
            default is a new name.
        labels: where the bookies are; the bookies take them in turn, later ones too.

    Raises:
        ConfigurationError: there are fewer bookies than one, or the name is in use.

    Guarantees: every method has taken effect when it returns, and none waits for a client. Any
    thread may call them; from outside the event loop of the clients, the caller waits for a turn
    of that loop.
    """

    def __init__(
        self, bookies: int = 4, *, name: str | None = None, labels: Sequence[Labels] = ()
    ) -> None:
        if bookies < 1:
            raise ConfigurationError(f"a cluster has at least one bookie, not {bookies}")
        self.name = name or f"cluster-{next(_numbers)}"
        self._labels = tuple(labels)
        self._switched = self._new_tree()
        offer_tree(self.name, self._switched)
        self._switched.tree.create(CLUSTER, Cluster(self.name, level=SPEAKS.highest).encode())
        self._bookies: list[SwitchedBookie] = []
        for _ in range(bookies):
            self.add_bookie()

    def __repr__(self) -> str:
        states = ", ".join(bookie.state.value for bookie in self._bookies)
        return f"MemoryCluster({self.store_uri!r}, bookies: {states})"

    @property
    def store_uri(self) -> str:
        """The URI for `quire.connect` and `quire.sync.connect`."""
        return f"{MEMORY}{self.name}"

    @property
    def bookies(self) -> int:
        """How many bookies the cluster has, killed bookies included."""
        return len(self._bookies)

    def add_bookie(self) -> int:
        """Start one more bookie.

        Returns:
            Its number.
        """
        return self._on_loop(self._add)

    def _add(self) -> int:
        number = len(self._bookies)
        bookie = self._new_bookie(number)
        self._bookies.append(bookie)
        offer_bookie(self._address(number), bookie)
        self._register(number)
        return number

    def _new_tree(self) -> SwitchedTree:
        return SwitchedTree(self.name)

    def _new_bookie(self, number: int) -> SwitchedBookie:
        return SwitchedBookie(f"{self.name}-bookie-{number}")

    def kill(self, index: int) -> None:
        """End a bookie as SIGKILL does: requests fail at once, and clients see it vanish.

        Args:
            index: the bookie's number, from 0 on.

        Raises:
            ConfigurationError: the cluster has no such bookie.
        """
        self._on_loop(lambda: self._kill(index))

    def restart(self, index: int) -> None:
        """Start a bookie again, with everything that it acknowledged.

        Args:
            index: the bookie's number, from 0 on.

        Raises:
            ConfigurationError: the cluster has no such bookie.
        """
        self._on_loop(lambda: self._restart(index))

    def pause(self, index: int) -> None:
        """Freeze a bookie as SIGSTOP does: it stays registered and does not answer.

        Args:
            index: the bookie's number, from 0 on.

        Raises:
            ConfigurationError: the cluster has no such bookie.
        """
        self._on_loop(lambda: self._bookie(index).switch(LineState.SILENT))

    def resume(self, index: int) -> None:
        """Let a paused bookie continue; requests that still wait are answered.

        Args:
            index: the bookie's number, from 0 on.

        Raises:
            ConfigurationError: the cluster has no such bookie.
        """
        self._on_loop(lambda: self._bookie(index).switch(LineState.UP))

    def cut(self, index: int) -> None:
        """Cut the line to a bookie: to a client this looks like `pause`. `heal` ends it.

        Args:
            index: the bookie's number, from 0 on.

        Raises:
            ConfigurationError: the cluster has no such bookie.
        """
        self.pause(index)

    def cut_store(self) -> None:
        """Cut every client off from the metadata store. Sessions last until they expire."""
        self._switched.is_cut = True

    def heal(self) -> None:
        """Restart killed bookies, resume paused ones, and mend every line."""
        self._on_loop(self._heal)

    def expire_sessions(self) -> None:
        """End the session of every client: leaders lose their leadership, as after a long pause."""
        self._on_loop(self._tree.end_sessions)

    def close(self) -> None:
        """Forget the cluster. Clients that are still connected cannot reconnect."""
        withdraw_tree(self.name)
        for number in range(len(self._bookies)):
            withdraw_bookie(self._address(number))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _on_loop(self, change: Callable[[], T]) -> T:
        """Make a change where the clients run, and return its result."""
        loop = loop_of(self.name)
        if loop is None or not loop.is_running() or loop is _running():
            return change()

        async def turn() -> T:
            return change()

        return asyncio.run_coroutine_threadsafe(turn(), loop).result()

    def _kill(self, index: int) -> None:
        self._bookie(index).switch(LineState.DOWN)
        self._unregister(index)

    def _restart(self, index: int) -> None:
        self._bookie(index).switch(LineState.UP)
        self._unregister(index)
        self._register(index)

    def _heal(self) -> None:
        self._switched.is_cut = False
        for index, bookie in enumerate(self._bookies):
            if bookie.state is LineState.DOWN:
                self._restart(index)
            bookie.switch(LineState.UP)

    @property
    def _tree(self) -> MemoryTree:
        return self._switched.tree

    def _bookie(self, index: int) -> SwitchedBookie:
        if not 0 <= index < len(self._bookies):
            raise ConfigurationError(
                f"bookie {index} is not in the cluster: it has bookies 0 to {self.bookies - 1}"
            )
        return self._bookies[index]

    def _address(self, index: int) -> str:
        return f"{self.store_uri}/{index}"

    def _register(self, index: int) -> None:
        bookie = self._bookies[index].bookie
        labels = self._labels[index % len(self._labels)] if self._labels else NOWHERE
        address = BookieAddress(bookie, self._address(index), labels=labels)
        record = encode_registration(address)
        self._tree.create(bookie_path(bookie), record)

    def _unregister(self, index: int) -> None:
        path = bookie_path(self._bookies[index].bookie)
        if self._tree.version(path) is not None:
            self._tree.delete(path, None)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
