"""Which errors of kazoo's say that nothing was changed, and which leave the outcome open (T3)."""

from __future__ import annotations

import pytest
from kazoo import exceptions as kazoo_errors
from kazoo.handlers.threading import KazooTimeoutError

from quire.errors import (
    ConfigurationError,
    ConflictError,
    InvalidRequestError,
    NodeExistsError,
    NoSuchNodeError,
    QuireError,
    SessionExpiredError,
    StoreUnavailableError,
    VersionConflictError,
)
from quire.metastore.zookeeper_requests import first_refused, refusal_of

OPEN = (
    kazoo_errors.ConnectionClosedError,
    kazoo_errors.ConnectionLoss,
    kazoo_errors.OperationTimeoutError,
    kazoo_errors.RuntimeInconsistency,
    kazoo_errors.SystemZookeeperError,
    KazooTimeoutError,
    ConnectionError,
)
"""The request may have been carried out, or may be yet."""

REFUSED: tuple[tuple[type[Exception], type[QuireError]], ...] = (
    (kazoo_errors.NoNodeError, NoSuchNodeError),
    (kazoo_errors.NodeExistsError, NodeExistsError),
    (kazoo_errors.BadVersionError, VersionConflictError),
    (kazoo_errors.NotEmptyError, ConflictError),
    (kazoo_errors.NoChildrenForEphemeralsError, InvalidRequestError),
    (kazoo_errors.NoAuthError, ConfigurationError),
    (kazoo_errors.InvalidACLError, ConfigurationError),
    (kazoo_errors.AuthFailedError, ConfigurationError),
    (kazoo_errors.SessionExpiredError, SessionExpiredError),
    (kazoo_errors.UnimplementedError, StoreUnavailableError),
    (kazoo_errors.BadArgumentsError, StoreUnavailableError),
)


@pytest.mark.parametrize("error", OPEN, ids=lambda each: each.__name__)
def test_an_error_of_the_line_is_no_refusal(error: type[Exception]) -> None:
    assert refusal_of("zk:", "/a", error(), 7) is None


@pytest.mark.parametrize(("error", "meaning"), REFUSED, ids=lambda each: each.__name__)
def test_a_refusal_of_the_server_is_one(error: type[Exception], meaning: type[QuireError]) -> None:
    found = refusal_of("zk:", "/a", error(), 7)
    assert type(found) is meaning


def test_the_part_of_a_transaction_that_was_refused_is_found() -> None:
    rolled, rest = kazoo_errors.RolledBackError(), kazoo_errors.RuntimeInconsistency()
    wrong = kazoo_errors.BadVersionError()
    assert first_refused([rolled, wrong, rest]) == (1, wrong)
    assert first_refused([wrong, rest]) == (0, wrong)
    assert first_refused([True, object()]) is None
