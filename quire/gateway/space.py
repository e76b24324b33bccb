"""Bytes and places that clients have of a gateway: bounded for each, and for all together.

A client decides how large its requests are, how long they take to come, and when it takes an
answer. So a request has space before its bytes are read, in the gateway's budget of bodies
(limits.py). While there is none it waits, and so does its client, as with Kafka. Requests get
space in the order of their coming.

A connection costs its opener nothing, nor does a request that is refused. So connections whose
openers may be strangers have a quarter of the places, and a further one ends the connection that
has been silent longest. When all places are taken, a new connection may also end the one that has
been longest between two requests. A request under way is not broken off. Kafka's port and HTTP
count their connections so, each for itself. Kafka's port tells of no rest: a client that has logged
in keeps its connection.
"""

from __future__ import annotations

import asyncio
from typing import Final, Generic, TypeVar

from quire.gateway.answers import BodyTooLargeError, BusyError
from quire.gateway.limits import Admission

SILENT_SHARE: Final = 4
"""Connections that have not logged in, or whose requests were refused, have one of so many places.
"""


T = TypeVar("T")


class Space:
    """The bytes of all connections of one port."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()
        admission.when_freed.append(self._freed.set)

    async def take(self, size: int) -> None:
        """Have space for a request, once there is some. Raises `BodyTooLargeError` for a request
        that never fits.
        """
        if size > self._admission.bytes_max:
            raise BodyTooLargeError(self._admission.bytes_max)
        async with self._turn:
            while True:
                self._freed.clear()
                try:
                    self._admission.take(size, size)
                except BusyError:
                    await self._freed.wait()
                else:
                    return

    def hold(self, size: int) -> None:
        """Count bytes of an answer, which is there already: further requests wait for them."""
        self._admission.hold(size)

    def give_back(self, size: int) -> None:
        """Forget bytes."""
        self._admission.give_back(size)

    @property
    def free(self) -> int:
        """The bytes that are free."""
        return self._admission.free


class ConnectionPlaces(Generic[T]):
    """The connections of one port. It decides which one ends. Implements
    `quire.http_server.ConnectionTable`, too.

    A connection is a stranger's until it has spoken: it has logged in, or a request of it was
    permitted. It can be ended for a new one unless a request is under way on it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._strangers_most = max(1, most // SILENT_SHARE)
        self._open: dict[T, None] = {}
        self._known: dict[T, None] = {}
        self._silent: dict[T, None] = {}
        """The strangers' connections that may be ended, the longest silent first."""
        self._resting: dict[T, None] = {}
        """The others that may be ended, the longest at rest first."""

    def enter(self, connection: T) -> T | None:
        """Give a new connection a place. Return the connection that has to end: the longest silent
        one, the longest resting one if all places are taken, the new one itself, or none.
        """
        strangers = len(self._open) - len(self._known)
        ended = None
        if strangers >= self._strangers_most:
            ended = next(iter(self._silent), connection)
        elif len(self._open) >= self._most:
            ended = next(iter(self._silent or self._resting), connection)
        if ended is not None:
            self.leave(ended)
        if ended is not connection:
            self._open[connection] = self._silent[connection] = None
        return ended

    def speak(self, connection: T) -> None:
        """Note that a connection has logged in, or that a request of it was permitted.

        No new connection ends it until it rests.
        """
        if connection in self._open:
            self._known[connection] = None
            self._silent.pop(connection, None)

    def work(self, connection: T) -> None:
        """Note that a request is under way: no new connection ends this one."""
        self._silent.pop(connection, None)
        self._resting.pop(connection, None)

    def rest(self, connection: T) -> None:
        """Note that no request is under way. Does nothing if that is known."""
        if connection in self._open:
            pool = self._resting if connection in self._known else self._silent
            pool.setdefault(connection)

    def leave(self, connection: T) -> None:
        """Free the place of a connection. Harmless if it has none."""
        for each in (self._open, self._known, self._silent, self._resting):
            each.pop(connection, None)
