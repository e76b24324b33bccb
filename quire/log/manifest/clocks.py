"""The clocks of a process that uses logs: the wall clock, and a clock that only goes forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from quire.log.manifest.ages import Reading
from quire.steady import SteadyClock


class Clocks(NamedTuple):
    """The clocks of a process. No decision rests on a single clock (ages.py)."""

    wall: Callable[[], float]
    """Seconds (Unix)."""
    steady: SteadyClock

    def now_ms(self) -> int:
        """Wall-clock milliseconds (Unix)."""
        return int(self.wall() * 1000)

    def reading(self) -> Reading:
        """Return the present reading of both clocks."""
        return Reading(self.now_ms(), self.steady.name, int(1000 * self.steady.seconds()))
