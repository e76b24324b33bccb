"""Bytes and places that clients have of a gateway: bounded for each, and for all together.

A client decides how large its requests are, how long they take to come, and when it takes an
answer. So a request has space before its bytes are read, in the gateway's budget of bodies
(limits.py). While there is none it waits, and so does its client, as with Kafka. Requests get
space in the order of their coming.

A connection that has said nothing costs its opener nothing. So such connections have a quarter of
the places, and a further one ends the connection that has been silent longest. Kafka's port and
HTTP count their connections so, each for itself.
"""

from __future__ import annotations

import asyncio
from typing import Final, Generic, TypeVar

from quire.gateway.answers import BodyTooLargeError, BusyError
from quire.gateway.limits import Admission

SILENT_SHARE: Final = 4
"""Connections that have not logged in, or sent no request, have one of so many places."""


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
    """The connections of one port, silent ones apart. It decides which connection ends. Implements
    `quire.http_server.ConnectionTable`, too.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._silent_most = max(1, most // SILENT_SHARE)
        self._open: dict[T, None] = {}
        self._silent: dict[T, None] = {}
        """The connections that have not spoken yet, oldest first."""

    def enter(self, connection: T) -> T | None:
        """Give a new connection a place. Return the connection that has to end: the longest silent
        one, the new one itself, or none.
        """
        is_full = len(self._open) >= self._most
        if is_full and not self._silent:
            return connection
        ended = None
        if is_full or len(self._silent) >= self._silent_most:
            ended = next(iter(self._silent))
            self.leave(ended)
        self._open[connection] = self._silent[connection] = None
        return ended

    def speak(self, connection: T) -> None:
        """Note that a connection has logged in, or sent a request."""
        self._silent.pop(connection, None)

    def leave(self, connection: T) -> None:
        """Free the place of a connection. Harmless if it has none."""
        self._open.pop(connection, None)
        self._silent.pop(connection, None)
