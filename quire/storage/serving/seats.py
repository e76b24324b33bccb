"""Which connections to the port for frames a bookie keeps when many want a place.

A stranger opens connections until none is left for clients. So connections are not worth the same:

* A connection that has greeted and sent nothing yet makes space for others, the
  oldest first. A client opens a connection when it has runs to send.
* A peer has its share of the places.
* The last eighth of them is for peers with few connections: a client has up to three to
  a bookie.

Invariant: at most `size` connections have places, and at most `peer_max` of one peer. Pure. Not
here: connections that have not greeted (run_listener.py), and those over gRPC (idlers.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

H = TypeVar("H", bound=Hashable)

RESERVED: Final = 8
"""One of so many places is for peers with few connections."""

FEW: Final = 4
"""So many connections of a peer are few."""


class Seat(NamedTuple, Generic[H]):
    """The answer to a connection that wants a place: it has one, unless there is a refusal."""

    refusal: str | None = None
    instead: H | None = None
    """The connection that loses its place for it."""


class Seats(Generic[H]):
    """The places of one port, for connections of any kind.

    Args:
        size: all places.
        peer_max: the share of one peer.
    """

    def __init__(self, size: int, peer_max: int) -> None:
        self._size = size
        self._peer_max = min(size, peer_max)
        self._reserved = size // RESERVED
        self._owners: dict[H, str] = {}
        self._silent: dict[str, dict[H, None]] = {}
        """By peer, connections that have sent nothing, oldest first."""
        self._held: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._owners)

    def want(self, holder: H, owner: str) -> Seat[H]:
        """Give a connection of a peer a place, if it can have one."""
        instead, refusal = None, self._problem(owner)
        if refusal is not None:
            instead = self._victim(owner)
            if instead is None:
                return Seat(refusal)
            self.left(instead)
        self._owners[holder] = owner
        self._silent.setdefault(owner, {})[holder] = None
        self._held[owner] += 1
        return Seat(None, instead)

    def spoke(self, holder: H) -> None:
        """A connection has sent something."""
        owner = self._owners.get(holder)
        silent = None if owner is None else self._silent.get(owner)
        if owner is not None and silent is not None:
            silent.pop(holder, None)
            if not silent:
                del self._silent[owner]

    def left(self, holder: H) -> None:
        """A connection is gone. Harmless when it has no place."""
        self.spoke(holder)
        owner = self._owners.pop(holder, None)
        if owner is not None:
            self._held[owner] -= 1
            if not self._held[owner]:
                del self._held[owner]

    def _problem(self, owner: str) -> str | None:
        total, held = len(self._owners), self._held[owner]
        if held >= self._peer_max:
            return f"{owner or 'a client'} has {held} connections for runs"
        if total >= self._size:
            return f"{total} connections for runs are open"
        if total >= self._size - self._reserved and held >= FEW:
            return (
                f"{total} connections for runs are open, and the last {self._reserved} places are "
                f"for peers with fewer than {FEW}"
            )
        return None

    def _victim(self, owner: str) -> H | None:
        """Return the oldest connection that sent nothing, of the peer that wants one more if it
        has many, else of the peer that has most.
        """
        greedy = owner
        if self._held[owner] < min(FEW, self._peer_max):
            greedy = max(self._silent, key=self._held.__getitem__, default=owner)
        return next(iter(self._silent.get(greedy, ())), None)
