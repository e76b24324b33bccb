"""Statuses of errors, as clients of other languages take them apart."""

from __future__ import annotations

from quire.errors import AppendOutcomeUnknownError, InvalidRequestError
from quire.gateway.answers import FAMILIES, BusyError, ElsewhereError
from quire.gateway.rpc import logs_pb2, status_pb2
from quire.gateway.rpc.port import _SERVICE
from quire.gateway.rpc.service import HANDLERS
from quire.gateway.rpc.statuses import CODES, DETAILS_KEY, status_of
from quire.rights.calls import LOGS


def details(error: Exception) -> status_pb2.Status:
    packed = dict(status_of(error).metadata)[DETAILS_KEY]  # type: ignore[arg-type]
    assert isinstance(packed, bytes)
    return status_pb2.Status.FromString(packed)


def test_each_family_of_errors_has_a_status() -> None:
    assert {kind.code for _, kind in FAMILIES} | {"elsewhere", "unauthorized"} == set(CODES)


def test_each_method_has_a_handler_and_a_right() -> None:
    methods = {each.name for each in _SERVICE.methods}
    assert {*HANDLERS, "Append"} == methods == set(LOGS)
    for method in _SERVICE.methods:
        if method.name != "ListLogs":
            assert "log" in method.input_type.fields_by_name, "the rights are those on a log"
    assert _SERVICE.full_name == "quire.gateway.v1.Logs"
    assert logs_pb2.DESCRIPTOR.package == "quire.gateway.v1"


def test_an_error_says_what_to_do() -> None:
    busy = details(BusyError("x"))
    assert [each.type_url for each in busy.details] == [
        "type.googleapis.com/google.rpc.ErrorInfo",
        "type.googleapis.com/google.rpc.RetryInfo",
    ]
    assert status_pb2.RetryInfo.FromString(busy.details[1].value).retry_delay.seconds == 1
    elsewhere = status_pb2.ErrorInfo.FromString(
        details(ElsewhereError("orders", "http://two", "two:8190")).details[0].value
    )
    assert (elsewhere.reason, elsewhere.domain) == ("ELSEWHERE", "quire")
    assert dict(elsewhere.metadata) == {"location": "two:8190"}
    for error in (InvalidRequestError("x"), AppendOutcomeUnknownError(1, 2, "x")):
        assert len(details(error).details) == 1, "no word of a repetition"


def test_an_unknown_outcome_is_an_error_of_its_own() -> None:
    status = status_of(AppendOutcomeUnknownError(1, 2, "x"))
    assert ("quire-error", "outcome_unknown") in status.metadata
    others = [each for code, each in CODES.items() if code != "outcome_unknown"]
    assert status.code not in others
