"""How much one client may append and read in a second. Pure: its owner tells the time.

A client is an identity that a token proves, or the address of an anonymous caller. Each client has
a budget for each direction, which fills at its rate, up to a second's worth. Work is charged once
its size is known, so a budget may go below zero: then the client waits until it is filled again. So
a request larger than a second's worth is carried out, and paid for afterwards.

Each protocol says so in its own way: HTTP answers 429 with `Retry-After`, Kafka's clients are told
how long they are throttled, a call over gRPC ends with RESOURCE_EXHAUSTED, and streams are slowed.

Invariants:
  - A client costs memory only while its budget is not full.
  - Over any time, a client gets its rate, a second's worth, and one request beyond them at most
    (of Kafka's protocol: the requests that a connection works on at the same time).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from quire.gateway.answers import QuotaError
from quire.gateway.limits import GatewayLimits
from quire.gateway.status import LateClient
from quire.wire.identity import ANONYMOUS, Identity

CLIENTS_MAX: Final = 10_000
"""Clients below a full budget that are remembered. Beyond them the longest silent client is
forgotten, and begins anew."""


class Direction(StrEnum):
    """Which way records go."""

    APPEND = "append"
    READ = "read"


class Rate(NamedTuple):
    """How much one client may have in a second; 0: without a limit."""

    bytes: float
    records: float

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return bool(self.bytes or self.records)


@dataclass
class _ClientBudget:
    """Seconds of the future that a client has used up already, by bytes and records."""

    bytes_until: float
    records_until: float
    throttled: int = 0
    """How often the client had used it up."""

    @property
    def until(self) -> float:
        return max(self.bytes_until, self.records_until)


@dataclass
class Amount:
    """Bytes and records of all clients since the start."""

    bytes: int = 0
    records: int = 0


class Quotas:
    """The budgets of all clients of one gateway.

    Args:
        limits: the rates.
        now: returns seconds that never go back.
    """

    def __init__(self, limits: GatewayLimits, now: Callable[[], float]) -> None:
        self._rates = {
            Direction.APPEND: Rate(
                limits.client_append_bytes_per_second, limits.client_append_records_per_second
            ),
            Direction.READ: Rate(
                limits.client_read_bytes_per_second, limits.client_read_records_per_second
            ),
        }
        self._now = now
        self._budgets: OrderedDict[tuple[str, Direction], _ClientBudget] = OrderedDict()
        self.throttled = dict.fromkeys(Direction, 0)
        """How often a client had used up its budget."""
        self.totals = {each: Amount() for each in Direction}

    def check(self, client: str, direction: Direction) -> None:
        """Raise `QuotaError` for a client that has used up its budget."""
        seconds = self.wait(client, direction)
        if seconds > 0:
            raise QuotaError(client, direction, seconds)

    def wait(self, client: str, direction: Direction) -> float:
        """Return after how many seconds a client may go on; 0: now."""
        budget = self._budgets.get((client, direction))
        return 0.0 if budget is None else max(0.0, budget.until - self._now())

    def charge(self, client: str, direction: Direction, size: int, records: int) -> float:
        """Count bytes and records of a client. Return as `wait`."""
        total = self.totals[direction]
        total.bytes += size
        total.records += records
        rate = self._rates[direction]
        if not rate.is_limited:
            return 0.0
        key = client, direction
        now = self._now()
        full = now - 1.0  # a second's worth is there
        budget = self._budgets.pop(key, None) or _ClientBudget(full, full)
        budget.bytes_until = max(budget.bytes_until, full) + _seconds(size, rate.bytes)
        budget.records_until = max(budget.records_until, full) + _seconds(records, rate.records)
        self._budgets[key] = budget
        self._forget(full)
        seconds = max(0.0, budget.until - now)
        self.throttled[direction] += seconds > 0
        budget.throttled += seconds > 0
        return seconds

    def late(self) -> list[LateClient]:
        """Return the clients that have used up their budget, the longest wait first."""
        now = self._now()
        found = [
            LateClient(client, str(direction), max(0.0, budget.until - now), budget.throttled)
            for (client, direction), budget in self._budgets.items()
            if budget.throttled and budget.until > now - 1.0
        ]
        return sorted(found, key=lambda each: (-each.waits_seconds, each.client))

    def _forget(self, full: float) -> None:
        """Drop budgets that are full, the longest silent first."""
        while self._budgets:
            oldest = next(iter(self._budgets))
            if len(self._budgets) <= CLIENTS_MAX and self._budgets[oldest].until > full:
                return
            del self._budgets[oldest]

    def __len__(self) -> int:
        """How many budgets are remembered."""
        return len(self._budgets)


def _seconds(amount: int, rate: float) -> float:
    return amount / rate if rate else 0.0


def client_of(identity: Identity, address: str) -> str:
    """Return the name of a client: its identity, or its address if it is anonymous."""
    return address if identity == ANONYMOUS else identity.name
