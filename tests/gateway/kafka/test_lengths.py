"""Requests that announce more than they have, as a client without a token may send them."""

from __future__ import annotations

import io
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.serial import entity_reader, entity_writer

from quire.errors import InvalidRequestError
from quire.gateway.kafka.lengths import ELEMENTS_MAX, check_lengths
from quire.gateway.kafka.messages import VERSIONS, decode_request, entity

TRIM = {"topics": [{"name": "a", "partitions": [{"partition_index": 0, "offset": 1}]}]}
REQUESTS: list[tuple[int, int, dict[str, Any]]] = [
    (21, 1, {**TRIM, "timeout": timedelta(0)}),
    (21, 2, {**TRIM, "timeout": timedelta(0)}),
    (42, 1, {"groups_names": ["a", "b"]}),
    (42, 2, {"groups_names": ["a", "b"]}),
    (16, 5, {"states_filter": ["a"], "types_filter": []}),
    (15, 5, {"groups": ["a"], "include_authorized_operations": False}),
]


def message_of(key: int, version: int, fields: dict[str, Any]) -> tuple[bytes, int]:
    """A request, and where its body begins."""
    schema: Any = load_request_schema(key, version)
    header: Any = schema.__header_schema__
    given: dict[str, Any] = {"request_api_key": key, "request_api_version": version}
    out = io.BytesIO()
    entity_writer(header)(out, entity(header, {**given, "correlation_id": 1, "client_id": "c"}))
    begin = out.tell()
    entity_writer(schema)(out, entity(schema, fields))
    return out.getvalue(), begin


@pytest.mark.parametrize(("key", "version", "fields"), REQUESTS)
def test_no_length_makes_a_gateway_ask_for_memory(
    key: int, version: int, fields: dict[str, Any]
) -> None:
    message, begin = message_of(key, version, fields)
    check_lengths(load_request_schema(key, version), message, begin)
    assert decode_request(message)[1] is not None
    refused = 0
    for at in range(begin, len(message)):
        for length in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\xff\x01"):
            for end in (at + 1, at + 4):
                try:
                    decode_request(message[:at] + length + message[end:])
                except InvalidRequestError as error:
                    refused += "announces" in str(error)
    assert refused >= 3, "refused before the decoder makes room"


def test_a_list_that_may_not_be_null_is_refused() -> None:
    message, begin = message_of(42, 1, {"groups_names": []})
    with pytest.raises(InvalidRequestError, match="a list of -1 elements"):
        decode_request(message[:begin] + b"\xff\xff\xff\xff")


def test_every_request_has_lengths_that_are_known() -> None:
    for key, versions in VERSIONS.items():
        for version in range(versions.lowest, versions.highest + 1):
            schema = load_request_schema(key, version)
            with suppress(InvalidRequestError):
                check_lengths(schema, bytes(200), 0)


def test_lengths_are_those_that_the_decoder_sees() -> None:
    for key, versions in VERSIONS.items():
        for version in range(versions.lowest, versions.highest + 1):
            schema: Any = load_request_schema(key, version)
            try:
                _, size = entity_reader(schema)(bytes(300), 0)
            except Exception:  # zeros are no request of this kind
                continue
            for end in range(size):
                with pytest.raises(InvalidRequestError):
                    check_lengths(schema, bytes(end), 0)


def test_a_request_of_very_many_elements_is_refused_before_they_are_made() -> None:
    names = ["x"] * (ELEMENTS_MAX // 2)
    message, begin = message_of(42, 2, {"groups_names": [*names, *names]})
    check_lengths(load_request_schema(42, 2), message, begin)
    message, begin = message_of(42, 2, {"groups_names": [*names, *names, "x"]})
    with pytest.raises(InvalidRequestError, match="more than 100000 elements"):
        check_lengths(load_request_schema(42, 2), message, begin)


def test_lists_in_lists_count_together() -> None:
    partitions = [{"partition_index": 0, "offset": 1}] * (ELEMENTS_MAX // 2)
    topics = [{"name": "a", "partitions": partitions}] * 2
    message, begin = message_of(21, 2, {"topics": topics, "timeout": timedelta(0)})
    with pytest.raises(InvalidRequestError, match="elements"):
        check_lengths(load_request_schema(21, 2), message, begin)


def test_tagged_fields_count_as_elements() -> None:
    """Each of them takes two bytes of a request, and as long as an element to pass over."""
    message, begin = message_of(42, 2, {"groups_names": []})
    assert message.endswith(b"\0"), "it has no tagged field"
    tagged = message[:-1] + b"\xff\xff\x7f" + 2 * (2**21 - 1) * b"\0"
    with pytest.raises(InvalidRequestError, match="more than 100000 elements"):
        check_lengths(load_request_schema(42, 2), tagged, begin)
