"""Whether a connection has the certificates of now.

A connection keeps the certificates that it was opened with. It is replaced when the client's were
renewed, and before the bookie's end: a connection that its certificate ends loses its calls
under way. A look costs a comparison, once a second.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from quire.wire.tls import Contexts

LOOK_SECONDS: Final = 1.0
"""How often a connection in use looks whether certificates have changed."""

RENEWED_SHARE: Final = 0.1
"""A connection is replaced when this part of the life of the bookie's certificate is left."""


class Certified(Protocol):
    """A connection to a bookie."""

    @property
    def end(self) -> float | None:
        """When the bookie's certificate ends, in seconds since 1970; None if not known."""
        ...


class Freshness:
    """The certificates of one connection at a time. Without TLS none is ever outdated."""

    __slots__ = ("_look_at", "_opened_at", "_tls", "_version")

    def __init__(self, tls: Contexts | None) -> None:
        self._tls = tls
        self._version = 0
        self._opened_at = self._look_at = 0.0

    def opened(self) -> None:
        """A connection is opened with the certificates of now."""
        if self._tls is not None:
            self._version = self._tls.version
            self._opened_at = self._tls.certificates.clock()

    def is_outdated(self, connection: Certified) -> bool:
        """Return whether the connection has to be replaced."""
        if self._tls is None:
            return False
        now = asyncio.get_running_loop().time()
        if now < self._look_at:
            return False
        self._look_at = now + LOOK_SECONDS
        clock, end = self._tls.certificates.clock, connection.end
        is_ending = end is not None and clock() >= end - RENEWED_SHARE * (end - self._opened_at)
        return is_ending or self._tls.version != self._version
