"""How an error becomes a code of Kafka. Pure.

A client repeats a request after some codes, and gives up after others. *Outcome unknown* is
`request_timed_out`: Kafka's clients repeat it, which is harmless with an idempotent producer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from kio.schema.errors import ErrorCode

from quire.errors import (
    ClosedError,
    CorruptEntryError,
    EntryTooLargeError,
    InvalidRequestError,
    LeadershipLostError,
    LevelNeededError,
    LogExistsError,
    NotFoundError,
    NotPermittedError,
    OutcomeUnknownError,
    PositionTrimmedError,
    RetryError,
    SequenceConflictError,
    SessionExpiredError,
    UnauthorizedError,
)
from quire.gateway.answers import BusyError, ElsewhereError, LedElsewhereError, NotReadyError
from quire.rights.scopes import CLUSTER

_CODES: Final[tuple[tuple[type[Exception], ErrorCode], ...]] = (
    (ElsewhereError, ErrorCode.not_leader_or_follower),
    (LedElsewhereError, ErrorCode.not_leader_or_follower),
    (NotReadyError, ErrorCode.not_leader_or_follower),
    (BusyError, ErrorCode.throttling_quota_exceeded),
    (SequenceConflictError, ErrorCode.out_of_order_sequence_number),
    (PositionTrimmedError, ErrorCode.offset_out_of_range),
    (NotPermittedError, ErrorCode.topic_authorization_failed),
    (UnauthorizedError, ErrorCode.topic_authorization_failed),
    (LevelNeededError, ErrorCode.unsupported_for_message_format),
    (EntryTooLargeError, ErrorCode.message_too_large),
    (LogExistsError, ErrorCode.topic_already_exists),
    (InvalidRequestError, ErrorCode.invalid_request),
    (NotFoundError, ErrorCode.unknown_topic_or_partition),
    (OutcomeUnknownError, ErrorCode.request_timed_out),
    (LeadershipLostError, ErrorCode.not_leader_or_follower),
    (SessionExpiredError, ErrorCode.not_leader_or_follower),
    (ClosedError, ErrorCode.not_leader_or_follower),
    (CorruptEntryError, ErrorCode.corrupt_message),
)


def code_of(error: Exception) -> ErrorCode:
    """Return the code that answers an error.

    Errors that are not in the table, such as bookies out of reach, are `not_enough_replicas`:
    nothing happened, and clients try again.
    """
    if isinstance(error, NotPermittedError) and error.scope == str(CLUSTER):
        return ErrorCode.cluster_authorization_failed
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return ErrorCode.not_enough_replicas


def codes_of(fields: Mapping[str, object]) -> Iterator[ErrorCode]:
    """Yield the errors that an answer tells: its own, and errors of its parts."""
    for value in fields.values():
        if isinstance(value, ErrorCode):
            if value is not ErrorCode.none:
                yield value
        elif isinstance(value, list):
            for each in value:
                if not isinstance(each, Mapping):
                    break
                yield from codes_of(each)


_OF_GROUPS: Final[Mapping[ErrorCode, ErrorCode]] = MappingProxyType(
    {
        ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
        ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    }
)
"""Kafka's Java client takes the codes of a topic's leader for the end of its consumer."""


def group_code_of(error: Exception) -> ErrorCode:
    """Return the code that answers an error of a request about a group.

    Source: Kafka's coordinator answers with the same codes when the topic that has the offsets
    cannot be written.
    """
    code = code_of(error)
    return _OF_GROUPS.get(code, code)


_OF_FETCHES: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.offset_out_of_range,
        ErrorCode.topic_authorization_failed,
        ErrorCode.corrupt_message,
    }
)
"""Codes that a consumer knows in an answer to a fetch."""


def fetch_code_of(error: Exception) -> ErrorCode:
    """Return the code that answers an error of a fetch.

    Kafka's Java client ends a consumer with `IllegalStateException` for a code that brokers do not
    answer a fetch with. After `not_leader_or_follower` consumers ask for the leader, and fetch
    again.

    Source: `FetchCollector.handleInitializeErrors` of Kafka's Java client.
    """
    code = code_of(error)
    if code in _OF_FETCHES:
        return code
    if isinstance(error, RetryError | OutcomeUnknownError):
        return ErrorCode.not_leader_or_follower
    return ErrorCode.unknown_server_error
