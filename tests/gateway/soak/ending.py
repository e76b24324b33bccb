"""How a writer's program learns that it has to end, and how it tells what it wrote."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence


class Ending:
    """Set once standard input has ended: the parent closed it, or is dead."""

    def __init__(self) -> None:
        self.event = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        sys.stdin.read()
        self.event.set()


def acked(numbers: Sequence[int], first_offset: int) -> None:
    """Tell the offsets of records that were appended together."""
    for place, number in enumerate(numbers):
        print("acked", number, first_offset + place, flush=True)


def numbers() -> Callable[[int], range]:
    """Return a function that takes the next so many numbers."""
    taken = 0

    def take(count: int) -> range:
        nonlocal taken
        taken += count
        return range(taken - count, taken)

    return take
