"""The counts of a bookie's subscriptions, for its operators. One owner, on one loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class NewsCounts:
    """Counts since the start, and how many there are now."""

    def __init__(self) -> None:
        self._clients = self._open = self._waiting = 0
        self._messages = self._entries = self._bytes = self._waits = 0

    @contextmanager
    def client(self) -> Iterator[None]:
        """A connection for subscriptions is served in the block."""
        self._clients += 1
        try:
            yield
        finally:
            self._clients -= 1

    @contextmanager
    def subscription(self) -> Iterator[None]:
        """A subscription is served in the block."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    @contextmanager
    def without_credit(self) -> Iterator[None]:
        """A subscription waits in the block until its follower takes the news."""
        self._waits += 1
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def sent(self, entries: int, size: int) -> None:
        """Count news with their entries and the bytes of the frames."""
        self._messages += 1
        self._entries += entries
        self._bytes += size

    def counters(self) -> dict[str, int]:
        """Return the counts by the names that metrics and `Bookie.info` have."""
        return {
            "subscription_clients": self._clients,
            "subscriptions_open": self._open,
            "subscriptions_without_credit": self._waiting,
            "subscription_messages": self._messages,
            "subscription_entries": self._entries,
            "subscription_bytes": self._bytes,
            "subscription_credit_waits": self._waits,
        }
