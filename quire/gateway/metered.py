"""What a gateway counts of itself. Pure but for the clock of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from quire.metrics.figures import Durations

KINDS_MAX: Final = 100
"""Kinds of errors that are counted apart."""

OTHERS: Final = "others"

NO_ANSWER: Final = 499
"""The status of a request whose client left: no answer was sent."""


class AnsweredCall(NamedTuple):
    """A call of the table, and the status of its answer."""

    call: str
    status: str


class GatewayMeter:
    """Figures since the start. One owner, on one loop."""

    def __init__(self) -> None:
        self.requests: dict[AnsweredCall, Durations] = {}
        self.errors: Counter[str] = Counter()
        """Requests that ended with an error, by its kind."""

    @property
    def total(self) -> int:
        """The requests of all protocols."""
        return sum(each.count for each in self.requests.values())

    def fail(self, kind: str) -> None:
        """Count an error that a client was told of."""
        known = kind in self.errors or len(self.errors) < KINDS_MAX
        self.errors[kind if known else OTHERS] += 1

    @contextmanager
    def timed(self, call: str) -> Iterator[list[int | str]]:
        """Count the request that is answered in the block, which appends its status."""
        now = asyncio.get_running_loop().time
        begun, status = now(), list[int | str]()
        try:
            yield status
        finally:
            self.answered(call, str(status[0] if status else NO_ANSWER), now() - begun)

    def answered(self, call: str, status: str, seconds: float) -> None:
        """Count a request by its answer."""
        found = self.requests.get(AnsweredCall(call, status))
        if found is None:
            found = self.requests[AnsweredCall(call, status)] = Durations()
        found.add(seconds)
