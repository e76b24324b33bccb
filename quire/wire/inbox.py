"""Whole messages of one connection that wait to be read, within space that all connections share.

Each connection may hold some messages, and there may be thousands of connections. So a message that
has come has to have space before it can be read, until the next one is read; while it waits for
space nothing more is taken from the other side. The space has a share for each peer, and peers get
their turns in rotation (quire/storage/serving/quota.py).

Invariants: messages are read in the order in which they came. Space is held for exactly the
messages that can be read and the last that was read. Not here: messages that are not whole
(framed.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

MESSAGE_COST: Final = 128
"""Cost of a waiting message besides its bytes: there can be many messages without bytes."""


class MessageSpace(Protocol):
    """Port: bytes for messages of all connections, with a share for each peer."""

    def take(self, peer: str, amount: int, /) -> bool:
        """Hold an amount for a peer now, or return False."""
        ...

    def ask(self, peer: str, amount: int, /) -> asyncio.Future[None]:
        """Return a turn, which is done once the amount is held."""
        ...

    def give_up(self, peer: str, amount: int, turn: asyncio.Future[None], /) -> None:
        """Give a turn up, or back the amount that it brought."""
        ...

    def give_back(self, peer: str, amount: int, /) -> None:
        """Hold an amount no longer."""
        ...


class Inbox:
    """The messages of one connection.

    Args:
        space: the shared space; None on a side that trusts the other.
        owner: returns the peer; asked once, when the first message has come.
        on_space: called when a message that had to wait can be read.
    """

    def __init__(
        self, space: MessageSpace | None, owner: Callable[[], str], on_space: Callable[[], None]
    ) -> None:
        self._space = space
        self._owner = owner
        self._known: str | None = None
        self._on_space = on_space
        self._ready: deque[bytes] = deque()
        self._waiting: deque[bytes] = deque()
        self._turn: asyncio.Future[None] | None = None
        """Of the first message that waits for space."""
        self._in_hand = 0
        """The cost of the message that was read last."""
        self.size = 0
        """Bytes that can be read, and the cost of their messages."""
        self.waiting_bytes = 0
        """Of messages that wait for space, with their cost."""

    @property
    def _peer(self) -> str:
        if self._known is None:
            self._known = self._owner()
        return self._known

    def __bool__(self) -> bool:
        """Whether a message can be read."""
        return bool(self._ready)

    def __len__(self) -> int:
        """Messages that were not read."""
        return len(self._ready) + len(self._waiting)

    def put(self, message: bytes) -> None:
        """Take in a whole message."""
        cost = len(message) + MESSAGE_COST
        if self._space is None or (not self._waiting and self._space.take(self._peer, cost)):
            self._ready.append(message)
            self.size += cost
            return
        self._waiting.append(message)
        self.waiting_bytes += cost
        self._ask()

    def done(self) -> None:
        """The message that was read last is needed no more."""
        if self._space is not None and self._in_hand:
            self._space.give_back(self._peer, self._in_hand)
        self._in_hand = 0

    def take(self) -> bytes:
        """Return the next message, which needs its space until `done`."""
        message = self._ready.popleft()
        self._in_hand = len(message) + MESSAGE_COST
        self.size -= self._in_hand
        return message

    def close(self) -> None:
        """Give all space back: the connection is gone. Readable bytes stay readable."""
        if (space := self._space) is None:
            return
        self.done()
        self._space = None
        for message in self._ready:
            space.give_back(self._peer, len(message) + MESSAGE_COST)
        if self._turn is not None:
            space.give_up(self._peer, len(self._waiting[0]) + MESSAGE_COST, self._turn)
            self._turn = None
        self._waiting.clear()
        self.waiting_bytes = 0

    def _ask(self) -> None:
        if self._turn is None and self._space is not None:
            self._turn = self._space.ask(self._peer, len(self._waiting[0]) + MESSAGE_COST)
            self._turn.add_done_callback(self._granted)

    def _granted(self, turn: asyncio.Future[None]) -> None:
        if turn is not self._turn:  # it was given up
            return
        self._turn = None
        message = self._waiting.popleft()
        cost = len(message) + MESSAGE_COST
        self.waiting_bytes -= cost
        self._ready.append(message)
        self.size += cost
        if self._waiting:
            self._ask()
        self._on_space()
