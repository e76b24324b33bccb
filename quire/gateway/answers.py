"""How an error becomes an answer: a status, a code for programs, and whether to try again. Pure.

The families of errors are answered alike, so that a program needs to know six codes only:

    400, 403, 404, 409, 410, 412, 413    the request must change
    307                      another gateway writes the log: Location
    429, 503                 nothing happened: try again after Retry-After
    504 outcome_unknown      it may or may not have happened. A repetition is harmless with a
                             producer and its sequence; without one, read before repeating
    500                      data is damaged
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from quire.errors import (
    ClosedError,
    ConflictError,
    EntryTooLargeError,
    IntegrityError,
    InvalidRequestError,
    LeadershipLostError,
    LogSealedError,
    NotFoundError,
    OutcomeUnknownError,
    PositionTrimmedError,
    QuireError,
    RetryError,
    SequenceConflictError,
    SessionExpiredError,
    TailConflictError,
    UnauthorizedError,
)


class GatewayError(Exception):
    """A request that a gateway refuses for a reason of its own. Programs see its answer."""


class ElsewhereError(GatewayError):
    """Another gateway writes the log."""

    def __init__(self, log: str, address: str) -> None:
        super().__init__(f"log {log!r} is written by the gateway at {address}")
        self.address = address


class LedElsewhereError(GatewayError):
    """A program that is no gateway leads the log."""

    def __init__(self, log: str, leader: str) -> None:
        super().__init__(
            f"log {log!r} is led by {leader}, which is no gateway: write through it, or end it"
        )


class NotReadyError(GatewayError):
    """The log is being taken over, or handed over."""

    def __init__(self, log: str, why: str) -> None:
        super().__init__(f"log {log!r} cannot be written at this moment: {why}")


class BusyError(GatewayError):
    """The gateway has as much to do as it may have."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the gateway is busy: {what}")


class BodyTooLargeError(GatewayError):
    """The body of a request is larger than a gateway takes."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"the body has more than {bytes_max} bytes: send fewer records at a time")


class Kind(NamedTuple):
    """How a family of errors is answered."""

    status: int
    code: str
    retry_after: int | None = None
    """Seconds after which to try again; None: not without a change."""


FAMILIES: Final[tuple[tuple[type[Exception], Kind], ...]] = (
    (BusyError, Kind(429, "busy", 1)),
    (NotReadyError, Kind(503, "not_ready", 1)),
    (LedElsewhereError, Kind(409, "led_elsewhere")),
    (TailConflictError, Kind(412, "offset_conflict")),
    (SequenceConflictError, Kind(409, "sequence_conflict")),
    (LogSealedError, Kind(409, "sealed")),
    (PositionTrimmedError, Kind(410, "trimmed")),
    (BodyTooLargeError, Kind(413, "too_large")),
    (EntryTooLargeError, Kind(413, "too_large")),
    (UnauthorizedError, Kind(403, "forbidden")),
    (InvalidRequestError, Kind(400, "invalid_request")),
    (NotFoundError, Kind(404, "not_found")),
    (ConflictError, Kind(409, "conflict")),
    (OutcomeUnknownError, Kind(504, "outcome_unknown", 1)),
    (RetryError, Kind(503, "unavailable", 1)),
    (ClosedError, Kind(503, "not_ready", 1)),
    (LeadershipLostError, Kind(503, "not_ready", 1)),
    (SessionExpiredError, Kind(503, "not_ready", 1)),
    (IntegrityError, Kind(500, "damaged")),
    (QuireError, Kind(500, "internal")),
)
"""The first match counts."""


def kind_of(error: QuireError | GatewayError) -> Kind:
    """Return how an error is answered."""
    return next(kind for family, kind in FAMILIES if isinstance(error, family))


def answer_to(
    error: QuireError | GatewayError,
) -> tuple[Kind, dict[str, object], Mapping[str, str]]:
    """Return the kind, the body and the headers of the answer to a request that failed."""
    kind = kind_of(error)
    body: dict[str, object] = {"error": kind.code, "message": str(error)}
    headers = {} if kind.retry_after is None else {"Retry-After": str(kind.retry_after)}
    return kind, body, headers
