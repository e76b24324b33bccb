"""How an error becomes an answer: a status, a code for programs, and whether to try again. Pure.

The families of errors are answered alike, so that a program needs to know six codes only:

    400, 403, 404, 409, 410, 412, 413    the request must change
    307                      another gateway writes the log: Location
    408                      the client has stalled
    429, 503                 nothing happened: try again after Retry-After
    504 outcome_unknown      it may or may not have happened. A repetition is harmless with a
                             producer and its sequence; without one, read before repeating
    500                      data is damaged
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final, NamedTuple

from quire.errors import (
    ClosedError,
    ConflictError,
    EntryTooLargeError,
    ForgottenProducerError,
    IntegrityError,
    InvalidRequestError,
    LeadershipLostError,
    LogSealedError,
    NotFoundError,
    NotPermittedError,
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

    def __init__(self, log: str, address: str, grpc: str | None = None) -> None:
        """`address` is its URL, `grpc` its `host:port` for gRPC, if it has one."""
        super().__init__(f"log {log!r} is written by the gateway at {address}")
        self.address = address
        self.grpc = grpc


class LedElsewhereError(GatewayError):
    """Another program than a gateway leads the log."""

    def __init__(self, log: str, leader: str) -> None:
        super().__init__(
            f"log {log!r} is led by {leader}, not by a gateway: write through it, or end it"
        )


class NotReadyError(GatewayError):
    """The log is being taken over, or handed over."""

    def __init__(self, log: str, why: str) -> None:
        super().__init__(f"log {log!r} cannot be written at this moment: {why}")


class BusyError(GatewayError):
    """The gateway has as much to do as it may have."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the gateway is busy: {what}")


class QuotaError(GatewayError):
    """A client has used up its share of appends or reads in a second."""

    def __init__(self, client: str, direction: str, seconds: float) -> None:
        super().__init__(f"{client} has used up its quota to {direction}: go on in {seconds:.3f} s")
        self.seconds = seconds


class PartlyAppendedError(GatewayError):
    """A record of a request was refused, and those before it are in the log."""

    def __init__(self, written: int, records: int, refusal: Exception) -> None:
        super().__init__(
            f"the first {written} of its {records} records are in the log, and the next one was "
            f"refused: {refusal}. Send only the others"
        )


class BodyTooLargeError(GatewayError):
    """The body of a request is larger than a gateway takes."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"the body has more than {bytes_max} bytes: send fewer records at a time")


class StalledError(GatewayError):
    """A client has sent nothing, or taken nothing, for too long."""


class ErrorAnswer(NamedTuple):
    """How a family of errors is answered."""

    status: int
    code: str
    retry_after: int | None = None
    """Seconds after which to try again; None: not without a change."""


FAMILIES: Final[tuple[tuple[type[Exception], ErrorAnswer], ...]] = (
    (BusyError, ErrorAnswer(429, "busy", 1)),
    (QuotaError, ErrorAnswer(429, "quota_exceeded", 1)),
    (NotReadyError, ErrorAnswer(503, "not_ready", 1)),
    (LedElsewhereError, ErrorAnswer(409, "led_elsewhere")),
    (TailConflictError, ErrorAnswer(412, "offset_conflict")),
    (SequenceConflictError, ErrorAnswer(409, "sequence_conflict")),
    (LogSealedError, ErrorAnswer(409, "sealed")),
    (PositionTrimmedError, ErrorAnswer(410, "trimmed")),
    (BodyTooLargeError, ErrorAnswer(413, "too_large")),
    (StalledError, ErrorAnswer(408, "stalled")),
    (EntryTooLargeError, ErrorAnswer(413, "too_large")),
    (UnauthorizedError, ErrorAnswer(403, "forbidden")),
    (NotPermittedError, ErrorAnswer(403, "not_permitted")),
    (InvalidRequestError, ErrorAnswer(400, "invalid_request")),
    (NotFoundError, ErrorAnswer(404, "not_found")),
    (ConflictError, ErrorAnswer(409, "conflict")),
    (OutcomeUnknownError, ErrorAnswer(504, "outcome_unknown", 1)),
    (PartlyAppendedError, ErrorAnswer(504, "outcome_unknown", 1)),
    (RetryError, ErrorAnswer(503, "unavailable", 1)),
    (ClosedError, ErrorAnswer(503, "not_ready", 1)),
    (LeadershipLostError, ErrorAnswer(503, "not_ready", 1)),
    (SessionExpiredError, ErrorAnswer(503, "not_ready", 1)),
    (IntegrityError, ErrorAnswer(500, "damaged")),
    (QuireError, ErrorAnswer(500, "internal")),
)
"""The first match counts."""


def kind_of(error: QuireError | GatewayError) -> ErrorAnswer:
    """Return how an error is answered."""
    return next(kind for family, kind in FAMILIES if isinstance(error, family))


def retry_seconds(error: QuireError | GatewayError) -> float | None:
    """Return after how many seconds to try again, if it is certain that nothing happened."""
    if isinstance(error, QuotaError):
        return error.seconds
    is_certain = not isinstance(error, OutcomeUnknownError | PartlyAppendedError)
    return kind_of(error).retry_after if is_certain else None


def answer_to(
    error: QuireError | GatewayError,
) -> tuple[ErrorAnswer, dict[str, object], Mapping[str, str]]:
    """Return the kind, the body and the headers of the answer to a request that failed."""
    kind = kind_of(error)
    body: dict[str, object] = {"error": kind.code, "message": str(error)}
    if isinstance(error, SequenceConflictError) and not isinstance(error, ForgottenProducerError):
        body["last"] = error.last
    seconds = retry_seconds(error) or kind.retry_after
    headers = {} if seconds is None else {"Retry-After": str(ceil(seconds))}
    if isinstance(error, StalledError):
        headers["Connection"] = "close"  # the rest of the body would be read, and thrown away
    return kind, body, headers
