"""Bytes that are counted once nothing holds them any more."""

from __future__ import annotations


class FreedBytes:
    """Counts the bytes of its own making that were freed."""

    def __init__(self) -> None:
        self.count = 0

    def watch(self, found: bytes) -> bytes:
        """Return the same bytes, to be counted at their end."""
        watched = _Watched(found)
        watched.freed = self
        return watched


class _Watched(bytes):
    freed: FreedBytes

    def __del__(self) -> None:
        self.freed.count += 1
