"""Every error has an answer, and the answer says whether to try again."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from quire import errors
from quire.cli.pairs import Pairs
from quire.errors import (
    AppendOutcomeUnknownError,
    ConfigurationError,
    DeposedError,
    ForgottenProducerError,
    LogSealedError,
    NoSuchLogError,
    QuireError,
    SequenceConflictError,
    StoreUnavailableError,
    TailConflictError,
)
from quire.gateway.answers import (
    FAMILIES,
    BodyTooLargeError,
    BusyError,
    LedElsewhereError,
    NotReadyError,
    answer_to,
)
from quire.gateway.limits import BODY_BYTES_MAX, Admission, GatewayLimits

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("error", "status", "code", "again"),
    [
        (BusyError("x"), 429, "busy", True),
        (NotReadyError("a", "x"), 503, "not_ready", True),
        (StoreUnavailableError("zk://x", "y"), 503, "unavailable", True),
        (AppendOutcomeUnknownError(7, 1, "x"), 504, "outcome_unknown", True),
        (DeposedError("a", 3, "x"), 504, "outcome_unknown", True),
        (LedElsewhereError("a", "b"), 409, "led_elsewhere", False),
        (LogSealedError("a"), 409, "sealed", False),
        (NoSuchLogError("a"), 404, "not_found", False),
        (TailConflictError("a", 1, 2), 412, "offset_conflict", False),
        (BodyTooLargeError(9), 413, "too_large", False),
        (ConfigurationError("x"), 400, "invalid_request", False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_family_is_answered_alike(error: QuireError, status: int, code: str, again: bool) -> None:
    kind, body, headers = answer_to(error)
    assert (kind.status, kind.code) == (status, code)
    assert body == {"error": code, "message": str(error)}
    assert ("Retry-After" in headers) == again


def test_a_conflict_tells_the_last_number_if_the_log_knows_it() -> None:
    assert answer_to(SequenceConflictError("shop", 3, 41))[1]["last"] == 41
    assert "last" not in answer_to(ForgottenProducerError("shop", 3))[1]


def test_only_what_did_not_happen_is_said_not_to_have_happened() -> None:
    """A plain failure for an unknown outcome would be a lie."""
    found = [each for each in vars(errors).values() if isinstance(each, type)]
    for family in found:
        if issubclass(family, errors.OutcomeUnknownError):
            kind = next(kind for known, kind in FAMILIES if issubclass(family, known))
            assert kind.code == "outcome_unknown", family


def test_more_than_the_limits_is_refused() -> None:
    admission = Admission(GatewayLimits(requests=2, bytes=100))
    with (
        admission.request(),
        admission.request(),
        pytest.raises(BusyError),
        admission.request(),
    ):
        pass
    with admission.request():
        admission.take(100, 100)
        with pytest.raises(BusyError):
            admission.take(1, 101)
        admission.give_back(100)
        with pytest.raises(BodyTooLargeError):
            admission.take(1, BODY_BYTES_MAX + 1)
    assert (admission.requests, admission.bytes) == (0, 0)


@pytest.mark.parametrize("limits", [{"requests": 0}, {"logs": 0}, {"idle_seconds": 0.0}])
def test_limits_of_nothing_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError):
        GatewayLimits(**limits)  # type: ignore[arg-type]


def test_the_page_lists_every_code_and_limit() -> None:
    page = (ROOT / "docs" / "gateway.md").read_text()
    for _, kind in FAMILIES:
        assert f"`{kind.code}`" in page or kind.code == "internal", kind.code
    option = Pairs(lambda: GatewayLimits)
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \|", page, re.MULTILINE))
    for each in fields(GatewayLimits):
        name = each.name.replace("_", "-")
        value = option.convert(f"{name}={rows[name].strip()}", None, None)
        assert value == (each.name, each.default)
