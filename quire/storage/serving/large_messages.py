"""Turns of one peer's large messages: a few come in at a time, the others are not read yet.

Receiving is work of the bookie, and it holds what has come of a message until the rest does. A peer
that begins a hundred messages of 8 MiB at once costs as much as a hundred honest peers do. So
beyond `places` large messages of one peer the connections of the others are not read: their bytes
stay with the peer and in the kernel. They go on in the order in which they came, when a message is
whole or its connection is gone. The age of a message goes on, so a peer that stalls its own turns
loses the connections that hold them (held_bytes.py).

Invariants: at most `places` messages of one peer have a turn; a waiting message gets its turn in
the call that ends another. Smaller messages never wait. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

LARGE_PLACES: Final = 4
"""Large messages of one peer that come in at a time: 32 MiB, a quarter of the budget for messages
that are not whole."""


@dataclass(slots=True)
class _Queue:
    going: dict[Hashable, None] = field(default_factory=dict)
    waiting: dict[Hashable, Callable[[], None]] = field(default_factory=dict)
    """What lets a connection go on, in the order of their messages."""


class LargeMessages:
    """The turns of all peers. Implements `Turns` (quire/wire/framed.py).

    Args:
        places: large messages of one peer that come in at a time.
    """

    def __init__(self, places: int = LARGE_PLACES) -> None:
        self.places = places
        self._peers: dict[str, _Queue] = {}
        self._owners: dict[Hashable, str] = {}

    def begin(self, holder: Hashable, owner: str, go_on: Callable[[], None]) -> bool:
        """Ask for a turn.

        Args:
            holder: the connection.
            owner: the peer that it belongs to.
            go_on: called once the turn comes, if it does not come at once.

        Returns:
            Whether the message has its turn now.
        """
        peer = self._peers.setdefault(owner, _Queue())
        self._owners[holder] = owner
        if len(peer.going) < self.places:
            peer.going[holder] = None
            return True
        peer.waiting[holder] = go_on
        return False

    def end(self, holder: Hashable) -> None:
        """Give a turn back, or stop waiting. Harmless without either."""
        owner = self._owners.pop(holder, None)
        if owner is None:
            return
        peer = self._peers[owner]
        peer.going.pop(holder, None)
        peer.waiting.pop(holder, None)
        if peer.waiting and len(peer.going) < self.places:
            first = next(iter(peer.waiting))
            go_on = peer.waiting.pop(first)
            peer.going[first] = None
            go_on()
        if not peer.going:
            del self._peers[owner]
