"""The standing of a bookie: what an operator wishes of it, whether or not it is up.

The record stays when the bookie is gone. Commands change it by compare-and-set; the bookie watches
it and obeys (quire/storage/identity/wish_watch.py). A bookie without a record serves.

    serve   it takes new entries
    away    it takes none until a time, because an operator works on it
    drain   it takes none, because it is to leave the cluster
    gone    it has left the cluster: its identity is given up

A time that one process wrote is never believed without a bound: an away ends after the seconds that
lie between `since_ms` and `until_ms`, whatever the bookie's clock says.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from quire.entry import BookieId
from quire.errors import ConfigurationError, CorruptRecordError, InvalidRequestError
from quire.fields import NOTHING, Unknown
from quire.labels import Labels
from quire.metastore.layout import standing_path
from quire.metastore.record import RecordFormat

FORMAT: Final = RecordFormat(
    "standing", frozenset({"wish", "reason", "by", "since_ms", "until_ms", "labels"})
)

REASON_CHARACTERS_MAX: Final = 500


class Wish(StrEnum):
    """What an operator wishes of a bookie."""

    SERVE = "serve"
    AWAY = "away"
    DRAIN = "drain"
    GONE = "gone"

    @property
    def takes_entries(self) -> bool:
        """Whether the bookie is to take ordinary entries."""
        return self is Wish.SERVE


@dataclass(frozen=True, slots=True)
class Standing:
    """One bookie's record. Times are Unix milliseconds of the operator's clock.

    Raises `InvalidRequestError` when an away has no end after its begin, or another wish has one.
    """

    wish: Wish = Wish.SERVE
    reason: str = ""
    by: str = ""
    """The user and the host of the command."""
    since_ms: int = 0
    until_ms: int | None = None
    """The end of an away."""
    labels: Labels | None = None
    """Where an operator says that the bookie is; None: where its process was started to be."""
    unknown: Unknown = field(default=NOTHING, compare=False)
    """Fields of a later program."""

    def __post_init__(self) -> None:
        if self.wish is Wish.AWAY:
            if self.until_ms is None or self.until_ms <= self.since_ms:
                raise InvalidRequestError(
                    f"away since {self.since_ms} ms until {self.until_ms} ms: an end after the "
                    "begin is needed"
                )
        elif self.until_ms is not None:
            raise InvalidRequestError(f"wish {self.wish} has no end: until {self.until_ms} ms")
        if len(self.reason) > REASON_CHARACTERS_MAX:
            raise InvalidRequestError(
                f"the reason has {len(self.reason)} characters, {REASON_CHARACTERS_MAX} are allowed"
            )

    def seconds_left(self, now_ms: int) -> float | None:
        """Return how long the wish still holds at a time, 0 when it is over; None: without end."""
        if self.until_ms is None:
            return None
        return max(0, min(self.until_ms - now_ms, self.until_ms - self.since_ms)) / 1000

    def wish_at(self, now_ms: int) -> Wish:
        """Return the wish at a time: an away that is over counts as `serve`."""
        return Wish.SERVE if self.seconds_left(now_ms) == 0 else self.wish

    def place(self, started: Labels) -> Labels:
        """Return where the bookie is, by its process if the record does not say. The host stays
        unless the record names another.
        """
        return started if self.labels is None else self.labels.at_host(started.host)

    def encode(self) -> bytes:
        """Return the record."""
        body: dict[str, object] = {
            "wish": str(self.wish),
            "reason": self.reason,
            "by": self.by,
            "since_ms": self.since_ms,
        }
        if self.until_ms is not None:
            body["until_ms"] = self.until_ms
        if self.labels is not None:
            body["labels"] = str(self.labels)
        return FORMAT.encode(body, self.unknown)

    @classmethod
    def decode(cls, bookie: BookieId, data: bytes) -> Standing:
        """Return the contents of a bookie's record. Raises `CorruptRecordError`."""
        path = standing_path(bookie)
        _, body, unknown = FORMAT.decode(path, data)
        match body:
            case {"wish": str(wish), "reason": str(reason), "by": str(by), "since_ms": int(since)}:
                until = body.get("until_ms")
                if until is not None and type(until) is not int:
                    raise CorruptRecordError(path, f"until_ms {until!r}")
                given = body.get("labels")
                if given is not None and not isinstance(given, str):
                    raise CorruptRecordError(path, f"labels {given!r}")
                try:
                    labels = None if given is None else Labels.parse(given)
                    return cls(Wish(wish), reason, by, since, until, labels, unknown)
                except (ValueError, InvalidRequestError, ConfigurationError) as error:
                    raise CorruptRecordError(path, str(error)) from error
        raise CorruptRecordError(path, f"a field is missing or of another type: {body!r}")


SERVING: Final = Standing()
"""The standing of a bookie without a record."""
