"""Metadata trees in memory that have a name: `memory://name` means the same one in every client.

A tree belongs to one process and to the event loop of its first client. `memory:` without a name
is a tree of its own for each client.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol

from quire.errors import ConfigurationError
from quire.metastore.store import MetadataStore

SCHEME: Final = "memory"


class SharedTree(Protocol):
    """A tree offered under a name; `open` makes a client's store over it."""

    def open(self) -> MetadataStore:
        """Return a new client's store. Called on the loop that the tree belongs to."""
        ...


@dataclass(slots=True)
class _Offer:
    tree: SharedTree
    loop: asyncio.AbstractEventLoop | None = None


_offered: dict[str, _Offer] = {}


def offer_tree(name: str, tree: SharedTree) -> None:
    """Let `memory://name` mean a tree. Raises `ConfigurationError` for a name that is in use."""
    if name in _offered:
        raise ConfigurationError(f"memory://{name} is in use: close the cluster that has the name")
    _offered[name] = _Offer(tree)


def withdraw_tree(name: str) -> None:
    """Take an offer back. Harmless without an offer."""
    _offered.pop(name, None)


def loop_of(name: str) -> asyncio.AbstractEventLoop | None:
    """Return the loop that a named tree belongs to, None before its first client."""
    offer = _offered.get(name)
    return None if offer is None else offer.loop


def open_shared(name: str) -> MetadataStore:
    """Return a new client's store over a named tree.

    Raises:
        ConfigurationError: this process has no tree of the name, or the tree belongs to another
            event loop.
    """
    offer = _offered.get(name)
    if offer is None:
        raise ConfigurationError(
            f"memory://{name} is not a cluster of this process: "
            "make it with quire.testing.MemoryCluster first, and keep it open"
        )
    loop = asyncio.get_running_loop()
    if offer.loop is None:
        offer.loop = loop
    if offer.loop is not loop:
        raise ConfigurationError(
            f"memory://{name} belongs to the event loop of its first client: connect all clients "
            "on one loop, or all with quire.sync"
        )
    return offer.tree.open()
