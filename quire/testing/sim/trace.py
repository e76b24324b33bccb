"""The trace of a run: a running hash over every step and every note, equal for equal runs."""

from __future__ import annotations

import hashlib
from array import array
from typing import Final

TRACE_BATCH: Final = 8192
"""Steps that are gathered before they are hashed."""


class SimTrace:
    """A running hash of everything that happened."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.batch: array[float] = array("d")

    def flush(self) -> None:
        self._hash.update(self.batch.tobytes())
        del self.batch[:]

    def note(self, text: str) -> None:
        self.flush()
        self._hash.update(text.encode())

    def digest(self) -> str:
        self.flush()
        return self._hash.hexdigest()
