"""A bounded amount of one thing for all peers, and a bounded share for each peer.

A stranger that asks without end must leave something to others. So no peer holds more than its
share, and peers that wait get their turns in rotation: a request waits for earlier requests of its
own peer, and for one request of each other peer.

Invariants: the amounts held never exceed `size`, and the amounts of one peer never `peer_max`. No
other peer overtakes a peer that waits for space, and not for itself. Decisions take no time and do
no I/O; a future is the only tool. Not here: bytes that a peer can refuse to give back
(held_bytes.py), and the name of a peer (wire/identity.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Quota:
    """One amount, on one loop.

    Args:
        size: for all peers.
        peer_max: for each of them; as much as `size` if it is missing.
    """

    def __init__(self, size: int, peer_max: int | None = None) -> None:
        self.free = size
        self.size = size
        self.peer_max = size if peer_max is None else max(1, min(peer_max, size))
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        """By peer. The next turn belongs to the first."""
        self._is_short = False
        """Whether the next peer waits for space, and not for itself."""

    def held(self, peer: str) -> int:
        """Return the amount that a peer holds."""
        return self._held[peer]

    def fit(self, amount: int) -> int:
        """Return the amount, or the share of a peer if the amount is larger."""
        return min(amount, self.peer_max)

    def take(self, peer: str, amount: int = 1) -> bool:
        """Hold an amount for a peer now, or return False: it is refused, or has to wait."""
        amount = min(amount, self.peer_max)
        if self._is_short or amount > self.free or peer in self._waiting:
            return False
        held = self._held[peer] + amount
        if held > self.peer_max:
            return False
        self.free -= amount
        self._held[peer] = held
        return True

    def give_back(self, peer: str, amount: int = 1) -> None:
        """Hold an amount no longer, the same as was taken."""
        self._release(peer, self.fit(amount))
        self._go_on()

    async def wait(self, peer: str, amount: int = 1) -> None:
        """Hold an amount for a peer as soon as it is its turn.

        Cancellation:
            Safe: a turn that came meanwhile is given back.
        """
        if self.take(peer, amount):
            return
        turn = self.ask(peer, amount)
        try:
            await turn
        except asyncio.CancelledError:
            self.give_up(peer, amount, turn)
            raise

    def ask(self, peer: str, amount: int = 1) -> asyncio.Future[None]:
        """Return a turn of a peer, which is done once the amount is held."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(peer, deque()).append((self.fit(amount), turn))
        self._go_on()
        return turn

    @asynccontextmanager
    async def turn(self, peer: str, amount: int) -> AsyncIterator[None]:
        """Hold an amount in the block; waits for it."""
        await self.wait(peer, amount)
        try:
            yield
        finally:
            self.give_back(peer, amount)

    def give_up(self, peer: str, amount: int, turn: asyncio.Future[None]) -> None:
        """Give a turn up; if it has come already, give its amount back."""
        amount = self.fit(amount)
        if turn.done() and not turn.cancelled():
            self._release(peer, amount)  # its turn came together with the cancellation
        elif (queue := self._waiting.get(peer)) is not None:
            with suppress(ValueError):  # a turn that came meanwhile was passed over
                queue.remove((amount, turn))
            if not queue:
                del self._waiting[peer]
        self._go_on()

    def _hold(self, peer: str, amount: int) -> None:
        self.free -= amount
        self._held[peer] += amount

    def _release(self, peer: str, amount: int) -> None:
        self.free += amount
        left = self._held[peer] = self._held[peer] - amount
        if not left:
            del self._held[peer]

    def _go_on(self) -> None:
        while (peer := self._next()) is not None:
            queue = self._waiting.pop(peer)
            amount, turn = queue.popleft()
            if queue:
                self._waiting[peer] = queue  # after the others
            if not turn.done():
                self._hold(peer, amount)
                turn.set_result(None)

    def _next(self) -> str | None:
        """Return the peer that goes on now. A peer with all of its share is passed over."""
        self._is_short = False
        for peer, queue in self._waiting.items():
            amount = queue[0][0]
            if self._held[peer] + amount <= self.peer_max:
                self._is_short = amount > self.free
                return None if self._is_short else peer
        return None
