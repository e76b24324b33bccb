"""How an error becomes a gRPC status, with what programs need to react. Pure.

The code of the status says how gRPC's own means treat the error: UNAVAILABLE and RESOURCE_EXHAUSTED
say that nothing happened and that a repetition may succeed. The code that HTTP answers with
(answers.py) stands in the metadata, so that a program reacts alike over both.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration

from quire.errors import QuireError
from quire.gateway.answers import ElsewhereError, GatewayError, kind_of, retry_seconds
from quire.gateway.rpc import status_pb2

ERROR_KEY: Final = "quire-error"
LOCATION_KEY: Final = "quire-location"
DETAILS_KEY: Final = "grpc-status-details-bin"

DOMAIN: Final = "quire"
"""The domain of reasons in google.rpc.ErrorInfo."""

_TYPES: Final = "type.googleapis.com/google.rpc."

CODES: Final[Mapping[str, grpc.StatusCode]] = MappingProxyType(
    {
        "busy": grpc.StatusCode.RESOURCE_EXHAUSTED,
        "quota_exceeded": grpc.StatusCode.RESOURCE_EXHAUSTED,
        "not_ready": grpc.StatusCode.UNAVAILABLE,
        "unavailable": grpc.StatusCode.UNAVAILABLE,
        "elsewhere": grpc.StatusCode.FAILED_PRECONDITION,
        "led_elsewhere": grpc.StatusCode.FAILED_PRECONDITION,
        "offset_conflict": grpc.StatusCode.FAILED_PRECONDITION,
        "sequence_conflict": grpc.StatusCode.FAILED_PRECONDITION,
        "sealed": grpc.StatusCode.FAILED_PRECONDITION,
        "conflict": grpc.StatusCode.ABORTED,
        "trimmed": grpc.StatusCode.OUT_OF_RANGE,
        "too_large": grpc.StatusCode.INVALID_ARGUMENT,
        "invalid_request": grpc.StatusCode.INVALID_ARGUMENT,
        "unauthorized": grpc.StatusCode.UNAUTHENTICATED,
        "forbidden": grpc.StatusCode.PERMISSION_DENIED,
        "not_permitted": grpc.StatusCode.PERMISSION_DENIED,
        "not_found": grpc.StatusCode.NOT_FOUND,
        "outcome_unknown": grpc.StatusCode.UNKNOWN,
        "stalled": grpc.StatusCode.DEADLINE_EXCEEDED,
        "damaged": grpc.StatusCode.DATA_LOSS,
        "internal": grpc.StatusCode.INTERNAL,
    }
)
"""By the code that HTTP answers with. A test holds it against the families of answers.py."""


class RpcStatus(NamedTuple):
    """The end of a call."""

    code: grpc.StatusCode
    message: str
    metadata: tuple[tuple[str, str | bytes], ...]


def status_of(error: QuireError | GatewayError) -> RpcStatus:
    """Return the status of a call that failed."""
    if isinstance(error, ElsewhereError):
        return made("elsewhere", str(error), location=error.grpc)
    return made(kind_of(error).code, str(error), retry_seconds(error))


def made(
    code: str, message: str, retry_after: float | None = None, location: str | None = None
) -> RpcStatus:
    """Return the status of a code of HTTP's answers.

    Args:
        code: one of `CODES`.
        message: the reason, for a human.
        retry_after: seconds after which to try again.
        location: the address of the gateway that writes the log.
    """
    places = {} if location is None else {"location": location}
    info = status_pb2.ErrorInfo(reason=code.upper(), domain=DOMAIN, metadata=places)
    details = [Any(type_url=f"{_TYPES}ErrorInfo", value=info.SerializeToString())]
    if retry_after is not None:
        delay = Duration()
        delay.FromMilliseconds(max(1, round(1000 * retry_after)))
        retry = status_pb2.RetryInfo(retry_delay=delay)
        details.append(Any(type_url=f"{_TYPES}RetryInfo", value=retry.SerializeToString()))
    number: int = CODES[code].value[0]
    packed = status_pb2.Status(code=number, message=message, details=details).SerializeToString()
    metadata: list[tuple[str, str | bytes]] = [(ERROR_KEY, code), (DETAILS_KEY, packed)]
    if location is not None:
        metadata.append((LOCATION_KEY, location))
    return RpcStatus(CODES[code], message, tuple(metadata))
