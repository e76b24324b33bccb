"""Holds a micro-batch back until it is large enough: `minOffsetsPerTrigger`, `maxTriggerDelay`.

The first batch of a process is never held back. A query that reads what there is and ends
(`trigger(availableNow=True)`, `trigger(once=True)`) would otherwise end without it, and before
PySpark 4.2 a source is not told of the trigger.

Pure: no clock and no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DELAY_SECONDS: Final = 15 * 60.0
"""As in Spark's Kafka source."""


@dataclass(frozen=True, slots=True)
class BatchMinimum:
    """How large a batch has to be, and how long it may wait for that."""

    records_min: int = 0
    seconds_max: float = DELAY_SECONDS


class Holding:
    """Decides when the next batch begins. Time is any clock that does not go back."""

    def __init__(self, minimum: BatchMinimum) -> None:
        self._minimum = minimum
        self._last: float | None = None
        """When the last batch began; None before the first."""

    def holds(self, records: int, now: float) -> bool:
        """Return whether a batch of so many records has to wait; if not, it begins now."""
        is_large = records >= self._minimum.records_min
        is_late = self._last is None or now - self._last >= self._minimum.seconds_max
        if not (is_large or is_late):
            return True
        if records:
            self._last = now
        return False
