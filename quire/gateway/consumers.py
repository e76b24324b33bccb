"""Streams of records that are open, and which of them wait for their consumer.

A consumer is slow when it leaves the gateway with a part of its stream that it does not take.
Consumers over Kafka's protocol ask for each batch, without a stream: they lag instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SLOW_SECONDS: Final = 2.0
"""A consumer that has not taken a part of its stream for so long is slow."""


class OpenStream:
    """One stream of records of a log, and its consumer."""

    def __init__(self, protocol: str, client: str, log: str) -> None:
        self.protocol = protocol
        self.client = client
        self.log = log
        self.handed_at: float | None = None
        """When a part was handed over that the consumer has not taken yet."""

    @contextmanager
    def handing(self) -> Iterator[None]:
        """Hand a part over in the block, which ends when the consumer has taken it."""
        self.handed_at = _now()
        try:
            yield
        finally:
            self.handed_at = None

    @property
    def waits_seconds(self) -> float:
        """How long the gateway has waited for the consumer; 0 if it does not wait."""
        return 0.0 if self.handed_at is None else _now() - self.handed_at


class Consumers:
    """The open streams of one gateway."""

    def __init__(self) -> None:
        self._open: dict[OpenStream, None] = {}

    @contextmanager
    def stream(self, protocol: str, client: str, log: str) -> Iterator[OpenStream]:
        """Have a stream open in the block."""
        opened = OpenStream(protocol, client, log)
        self._open[opened] = None
        try:
            yield opened
        finally:
            del self._open[opened]

    def __len__(self) -> int:
        """How many streams are open."""
        return len(self._open)

    def slow(self) -> list[OpenStream]:
        """Return the streams that wait for a slow consumer, the longest wait first."""
        found = [each for each in self._open if each.waits_seconds >= SLOW_SECONDS]
        return sorted(found, key=lambda each: -each.waits_seconds)


def _now() -> float:
    return asyncio.get_running_loop().time()
