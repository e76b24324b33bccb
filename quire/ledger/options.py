"""Options of the ledger layer, with the arithmetic of each default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quire.checked import check_types
from quire.errors import ConfigurationError
from quire.labels import NOWHERE, Labels
from quire.ledger.domains import ANYWHERE, Placement
from quire.requests import SLOW_SECONDS

SECONDS_MAX: Final = 1e8
"""Three years: a deadline that is further away than machines can count comes at once."""


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    """Bounds and deadlines of ledger writers and readers. Times in seconds, sizes in bytes.

    Raises `ConfigurationError` when a value cannot work, or is of another type.
    """

    request_timeout: float = 5.0
    """One request to one bookie; a bookie that takes longer is replaced."""

    slow_request: float = SLOW_SECONDS
    """A request to a bookie that takes longer is written to the log, with its id and stages."""

    stall_timeout: float = 1.0
    """The same, while every append waits for space because this one bookie is late."""

    append_timeout: float = 30.0
    """No append waits longer for its answer, and `close` no longer for appends in flight."""

    close_grace: float = 1.0
    """`close` waits so long for bookies that are up and slower than the ack quorum, then leaves
    their copies out. A bookie that is only slow is done in milliseconds."""

    entries_in_flight_max: int = 8192
    """Entries not yet confirmed; and, apart, confirmed ones not yet sent to a slow bookie."""

    bytes_in_flight_max: int = 64 * 1024 * 1024
    """The same in payload bytes, so a writer holds at most twice this."""

    runs_outstanding_max: int = 4
    """Runs under way to one bookie: two keep it busy while an ack travels, four also while the
    writer is busy with the appends that the last ack let in. More are only smaller."""

    lac_idle: float = 0.001
    """An idle writer tells its LAC after this time, so that followers see the last entry. Long
    enough for the next frame of a writer that goes on at once, and short beside a synced append."""

    quarantine: float = 30.0
    """A bookie that failed a writer is not a spare for it for so long."""

    read_ahead_bytes: int = 4 * 1024 * 1024
    """Bytes a sequential read keeps requested ahead of its consumer, in four pieces. With large
    entries each piece is one entry from every bookie that is asked, however large."""

    small_read_bytes: int = 1
    """Closed ledgers, or parts of them, with at most so many bytes of payload are read over the
    connection for news, where the bookie has one: a program that reads thousands of small ledgers
    needs less of the processor, here and there. Useful up to 128 KiB."""

    speculative_delay: float = 0.250
    """A read asks a second bookie when the first took this long."""

    delay_ensemble_change: bool = False
    """Leave a failed bookie in its place while every write set has Qa others: fewer fragments,
    for entries on fewer bookies than Qw. A read-only bookie is replaced at once."""

    labels: Labels = NOWHERE
    """Where this client is: near copies are read first. `connect` adds the machine as host."""

    placement: Placement = ANYWHERE
    """Where the copies of new ledgers may be, unless a call or a log says otherwise."""

    opportunistic_striping: bool = False
    """Create a ledger on fewer bookies than asked for, at least Qw, when no more are writable."""

    def __post_init__(self) -> None:
        check_types(self)
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, bool | Labels | Placement):
                continue
            if not value > 0:
                raise ConfigurationError(f"{name} must be positive, not {value}")
            if name not in _COUNTS and value > SECONDS_MAX:
                raise ConfigurationError(f"{name} must be at most {SECONDS_MAX:.0f} s, not {value}")


_COUNTS: Final = {
    "entries_in_flight_max",
    "bytes_in_flight_max",
    "runs_outstanding_max",
    "read_ahead_bytes",
    "small_read_bytes",
}
