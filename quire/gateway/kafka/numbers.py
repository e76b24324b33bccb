"""The numbers of Kafka's idempotent producers, and the number of a producer's next batch. Pure.

A producer numbers its records from 0 on, in 31 bits that come round. A new *epoch* of it begins at
0 again, and is another producer to a log. The log keeps one number for a batch: that of its last
record, in 63 bits, which do not come round.

Invariants:
  - A batch is taken if it continues the last one, or repeats an earlier one as a whole. Only the
    log knows what another gateway took before. So the first batch that a writer sees is held
    against the log.
  - While a batch that failed was not repeated, none after it is taken.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from quire.gateway.kafka.records import Produced

SEQUENCES: Final = 2**31
"""A producer's own numbers come round after so many records."""

REMEMBERED_MAX: Final = 1000
"""Producers of one log, of the last to write, that are remembered here and not looked up."""


def producer_name(batch: Produced) -> str:
    """Return the name that a log has for a batch's producer."""
    return f"kafka-{batch.producer}-{batch.epoch}"


class NextNumbers:
    """The numbers that follow in one log, for one writer of it.

    Args:
        last: returns the last number of a producer's name in the log, None for a new producer.
            Raises `ForgottenProducerError`.
    """

    def __init__(self, last: Callable[[str], int | None]) -> None:
        self._last = last
        self._next: OrderedDict[str, int] = OrderedDict()

    def take(self, batch: Produced) -> int | None:
        """Return the number of a batch, of its last record; None if it is out of order.

        The batch counts as appended from now on. Raises `ForgottenProducerError`.
        """
        name = producer_name(batch)
        following = self._following(name)
        first = following - (following - batch.sequence) % SEQUENCES
        if first < 0 or following - first >= SEQUENCES // 2:
            return None
        end = first + len(batch.records)
        if first < following < end:
            return None  # it begins inside an earlier batch: records would be there twice
        self._remember(name, max(end, following))
        return end - 1

    def fail(self, batch: Produced) -> None:
        """Go on with a batch that was not appended: those after it wait for its repetition."""
        name = producer_name(batch)
        following = self._next.get(name)
        if following is not None:
            behind = (following - batch.sequence) % SEQUENCES
            if behind < SEQUENCES // 2:
                self._next[name] = following - behind

    def _following(self, name: str) -> int:
        found = self._next.get(name)
        if found is not None:
            return found
        last = self._last(name)
        return 0 if last is None else last + 1

    def _remember(self, name: str, following: int) -> None:
        self._next.pop(name, None)
        self._next[name] = following
        while len(self._next) > REMEMBERED_MAX:
            self._next.popitem(last=False)
