"""Python's garbage collector in a process that handles many entries."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

COLLECT_AFTER: Final = (10_000, 20, 20)
"""Thresholds of the garbage collector: new objects before it looks through the youngest
generation, and collections of a generation before the next older one."""


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Within the block the garbage collector skips objects that exist now, and runs less often.

    Entries in flight are many objects that live for some milliseconds, and a bookie keeps entries
    in memory until it flushes them. Collecting through them again and again costs up to a tenth of
    all CPU. A service that writes much does the same.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
