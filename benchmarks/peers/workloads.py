"""The workloads that every peer runs, as far as its kind has them."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, get_args

Kind = Literal["ledger", "log", "Kafka's client"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""A ledger, a log through each system's own client, and a log through Kafka's client everywhere."""
READ_FROM: Final = (1024, 1_000)
"""Bytes and entries in flight of the workload that readings read back."""


class Workload(NamedTuple):
    """Appends, or one reading of entries that were appended before."""

    kind: Kind
    size: int
    """Bytes of an entry or record."""
    in_flight: int
    """Unconfirmed all the time, in each ledger. 0: what `is_read_later` is read."""
    ledgers: int = 1

    @property
    def is_read_later(self) -> bool:
        """Whether a later reading reads these entries."""
        return (self.size, self.in_flight) == READ_FROM

    @property
    def name(self) -> str:
        """What people read."""
        size = f"{self.size // 1024} KiB" if self.size >= 1024 else f"{self.size} B"
        if not self.in_flight:
            return f"{self.kind}: {size}, read in order"
        each = "one at a time" if self.in_flight == 1 else f"{self.in_flight:,} in flight"
        many = "" if self.ledgers == 1 else f"{self.ledgers:,} ledgers, "
        return f"{self.kind}: {size}, {many}{each}"


WORKLOADS: Final = (
    Workload("ledger", 1024, 1),
    Workload("ledger", 1024, 64),
    Workload("ledger", 1024, 1_000),
    Workload("ledger", 1024, 4_000),
    Workload("ledger", 100, 1_000),
    Workload("ledger", 64 * 1024, 64),
    Workload("ledger", 64 * 1024, 1_000),
    Workload("ledger", 1024, 1, ledgers=100),
    Workload("ledger", 1024, 1, ledgers=1_000),
    Workload("ledger", 1024, 0),
    Workload("log", 1024, 1),
    Workload("log", 1024, 1_000),
    Workload("log", 1024, 20_000),
    Workload("log", 100, 20_000),
    Workload("log", 1024, 0),
    Workload("Kafka's client", 1024, 1),
    Workload("Kafka's client", 1024, 1_000),
    Workload("Kafka's client", 1024, 20_000),
    Workload("Kafka's client", 100, 20_000),
    Workload("Kafka's client", 1024, 0),
)
"""Ledgers have three copies on three servers, and an ack waits for two; logs likewise."""
