"""The switch of healing: an operator's pause and an operator's go, as one record.

    /quire/healing/switch        kind `healing-switch`, version 1

A pause has an end. A go names the bookies that were missing when the operator said it: it holds
while no other bookie is missing, so it is never taken back. Changed by compare-and-set; the auditor
reads it in every round.

Pure, but for `read_switch` and `change_switch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from quire.entry import BookieId
from quire.errors import (
    CorruptRecordError,
    InvalidRequestError,
)
from quire.fields import NOTHING, Unknown
from quire.metastore.changing import change_record, find_record
from quire.metastore.layout import HEALING_SWITCH
from quire.metastore.record import RecordFormat
from quire.metastore.store import MetadataStore, Versioned

FORMAT: Final = RecordFormat("healing-switch", frozenset({"pause", "go"}))


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing is to move until a time. Times are Unix milliseconds of the operator's clock."""

    reason: str
    by: str
    since_ms: int
    until_ms: int

    def __post_init__(self) -> None:
        if self.until_ms <= self.since_ms:
            raise InvalidRequestError(
                f"a pause since {self.since_ms} ms until {self.until_ms} ms: an end after the "
                "begin is needed"
            )

    def seconds_left(self, now_ms: int) -> float:
        """Return how long it still holds at a time, 0 when it is over."""
        return max(0, min(self.until_ms - now_ms, self.until_ms - self.since_ms)) / 1000


@dataclass(frozen=True, slots=True)
class Go:
    """Moves are allowed although these bookies are missing at once."""

    by: str
    at_ms: int
    bookies: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True)
class Switch:
    """The record."""

    pause: Pause | None = None
    go: Go | None = None
    unknown: Unknown = field(default=NOTHING, compare=False)

    def allows(self, missing: Iterable[BookieId]) -> bool:
        """Whether an operator said go for all of some bookies."""
        return self.go is not None and set(missing).issubset(self.go.bookies)

    def paused(self, pause: Pause | None) -> Switch:
        """Return the switch with a pause, or without one."""
        return replace(self, pause=pause)

    def going(self, go: Go) -> Switch:
        """Return the switch with a go instead of an earlier one."""
        return replace(self, go=go)

    def encode(self) -> bytes:
        """Return the record."""
        body: dict[str, Any] = {}
        if self.pause is not None:
            body["pause"] = {
                "reason": self.pause.reason,
                "by": self.pause.by,
                "since_ms": self.pause.since_ms,
                "until_ms": self.pause.until_ms,
            }
        if self.go is not None:
            names = sorted(self.go.bookies)
            body["go"] = {"by": self.go.by, "at_ms": self.go.at_ms, "bookies": names}
        return FORMAT.encode(body, self.unknown)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Switch:
        """Return the value of a record read at `path`. Raises `CorruptRecordError`."""
        _, body, unknown = FORMAT.decode(path, data)
        try:
            return cls(_pause(body.get("pause")), _go(body.get("go")), unknown)
        except (ValueError, InvalidRequestError) as error:
            raise CorruptRecordError(path, str(error)) from error


def _pause(found: Any) -> Pause | None:
    match found:
        case None:
            return None
        case {"reason": str(), "by": str(), "since_ms": int(), "until_ms": int()}:
            return Pause(found["reason"], found["by"], found["since_ms"], found["until_ms"])
    raise ValueError(f"pause {found!r}")


def _go(found: Any) -> Go | None:
    match found:
        case None:
            return None
        case {"by": str(by), "at_ms": int(at), "bookies": list(names)}:
            if all(type(each) is str for each in names):
                return Go(by, at, tuple(names))
    raise ValueError(f"go {found!r}")


async def read_switch(store: MetadataStore) -> Switch:
    """Return the switch of a cluster. Raises `CorruptRecordError` and the store's errors."""
    record = await find_record(store, HEALING_SWITCH)
    return Switch() if record is None else Switch.decode(HEALING_SWITCH, record.value)


async def change_switch(store: MetadataStore, decide: Callable[[Switch], Switch]) -> Switch:
    """Change the switch, and return it. `decide` may be called several times.

    A damaged switch is replaced. Raises the store's errors; the call can be repeated.
    """
    wanted = Switch()

    def edit(record: Versioned | None) -> bytes | None:
        nonlocal wanted
        current, is_damaged = Switch(), False
        if record is not None:
            try:
                current = Switch.decode(HEALING_SWITCH, record.value)
            except CorruptRecordError:
                is_damaged = True
        wanted = decide(current)
        return None if wanted == current and not is_damaged else wanted.encode()

    await change_record(store, HEALING_SWITCH, edit)
    return wanted
