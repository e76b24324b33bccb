"""Turns of one peer's messages that cost little: so many in a turn of the loop, the others later.

A connection with messages at hand is read without waiting. With messages that ask for next to
nothing, on a few connections, a peer would keep the loop from all others. So each part of a message
is charged to its peer, on any connection, and the charge ends with the turn of the loop. Beyond its
share a peer waits for its next turn.

Invariants: a peer has at most its share in a turn of the loop, on all connections together, and
all peers at most `size`. A peer within its share waits for no turn. Not here: work that goes on
for longer than a turn (limits.py), and messages before they are read (quire/wire/framed.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from quire.storage.serving.quota import Quota

MESSAGES_MAX: Final = 128
"""In a turn of the loop: at some 100 µs for a read that is denied, a few milliseconds."""


class MessageTurns:
    """The messages of all peers in one turn of the loop.

    Args:
        size: for all peers.
        peer_max: for each of them.
    """

    def __init__(self, size: int, peer_max: int) -> None:
        self._quota = Quota(size, peer_max)
        self._charged: Counter[str] = Counter()
        """By peer, in this turn."""

    async def wait(self, peer: str) -> None:
        """Charge a part of a message to a peer, as soon as it is its turn."""
        if not self._quota.take(peer):
            await self._quota.wait(peer)
        if not self._charged:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._charged[peer] += 1

    def _next_turn(self) -> None:
        charged, self._charged = self._charged, Counter()
        for peer, amount in charged.items():
            self._quota.give_back(peer, amount)
