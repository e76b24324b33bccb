"""The rounds of failures that a seed stands for. Pure.

Rounds come in blocks that have every combination of writer, taker, failure and protocol once, in
an order that the seed shuffles. A round can be played alone: it depends on the seed and its number.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Final

from quire.entry import DigestKind
from tests.interop.runs import JAVA_NAMES


class Failure(StrEnum):
    """What befalls a bookie of the ledger, and the writer."""

    KILL = "kill -9"
    KILL_AND_FENCE = "kill -9 and a fence"
    STOP = "SIGSTOP"
    STOP_AND_FENCE = "SIGSTOP and a fence"
    FENCE = "a fence"

    @property
    def kills(self) -> bool:
        return self in (Failure.KILL, Failure.KILL_AND_FENCE)

    @property
    def stops(self) -> bool:
        return self in (Failure.STOP, Failure.STOP_AND_FENCE)

    @property
    def fences(self) -> bool:
        """Whether the taker opens the ledger while the writer writes; else the writer left."""
        return self in (Failure.KILL_AND_FENCE, Failure.STOP_AND_FENCE, Failure.FENCE)


JAVA: Final = "java"
QUIRE: Final = "quire"
CLIENTS: Final = (JAVA, QUIRE)
PROTOCOLS: Final = ("v3", "v2")

BLOCK: Final = [*product(CLIENTS, CLIENTS, Failure, PROTOCOLS)]
"""Writer, taker, failure, and the protocol that the Java client which writes speaks."""

STRIKES_MAX: Final = 12
"""The failure comes during one of so many bursts."""


@dataclass(frozen=True)
class Plan:
    """One round."""

    number: int
    writer: str
    taker: str
    failure: Failure
    protocol: str
    """Of the Java client that writes; the one that takes over speaks the other."""
    digest: DigestKind
    position: int
    """Of the bookie that the failure befalls, in the ensemble."""
    burst: int
    """The burst of the writer in which the failure comes."""
    waits_for_change: bool
    """Whether the round goes on when the writer has replaced that bookie, or at once."""

    def __str__(self) -> str:
        changed = ", and a new ensemble" if self.waits_for_change else ""
        return (
            f"{self.writer} writes ({self.digest}), {self.failure} in burst {self.burst}"
            f"{changed}, {self.taker} takes over; Java writes by {self.protocol}"
        )


def plan_of(seed: int, number: int) -> Plan:
    """Return a round of a seed."""
    order = list(range(len(BLOCK)))
    random.Random(f"block {number // len(BLOCK)} of {seed}").shuffle(order)
    writer, taker, failure, protocol = BLOCK[order[number % len(BLOCK)]]
    rng = random.Random(f"round {number} of {seed}")
    return Plan(
        number,
        writer,
        taker,
        failure,
        protocol,
        rng.choice(list(JAVA_NAMES)),
        position=rng.randrange(3),
        burst=rng.randrange(1, STRIKES_MAX),
        waits_for_change=failure is not Failure.FENCE and rng.random() < 0.5,
    )
