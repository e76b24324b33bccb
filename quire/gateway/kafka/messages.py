"""Bytes to requests, and answers to bytes. Pure.

A frame is a size and a message (https://kafka.apache.org/protocol). Which fields a message has
depends on its version; `kio` knows them. A handler answers with the fields of the newest version
as plain mappings: `encode_answer` takes the fields of the request's version.
"""

from __future__ import annotations

import dataclasses
import io
import typing
from collections.abc import Hashable, Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias, cast

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from quire.errors import InvalidRequestError
from quire.gateway.kafka.lengths import check_lengths
from quire.gateway.limits import BODY_BYTES_MAX

FRAME_BYTES_MAX: Final = BODY_BYTES_MAX
"""The largest message that is read."""

FIRST_BYTES_MAX: Final = 64 * 1024
"""The largest message that is read before the client has logged in."""

MESSAGE_CHARACTERS_MAX: Final = 1000
"""An error's text in an answer is cut here: it may quote a request, and older versions of answers
hold 32,767 bytes."""

Fields: TypeAlias = Mapping[str, Any]
"""The fields of an answer by name; nested messages are mappings, too, in sequences."""


class Versions(NamedTuple):
    """The versions of a request that are answered."""

    lowest: int
    highest: int


PRODUCE: Final = 0
FETCH: Final = 1
OFFSET_COMMIT: Final = 8
API_VERSIONS: Final = 18
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
OPEN: Final = frozenset({API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE})
"""Answered before the client has logged in."""

VERSIONS: Final[dict[int, Versions]] = {
    PRODUCE: Versions(3, 9),
    FETCH: Versions(4, 12),  # Fetch
    2: Versions(1, 6),  # ListOffsets; from 7 on for the latest time, which a log would be read for
    3: Versions(1, 12),  # Metadata
    OFFSET_COMMIT: Versions(2, 8),
    9: Versions(1, 8),  # OffsetFetch
    10: Versions(0, 4),  # FindCoordinator
    11: Versions(0, 9),  # JoinGroup
    12: Versions(0, 4),  # Heartbeat
    13: Versions(0, 5),  # LeaveGroup
    14: Versions(0, 5),  # SyncGroup
    15: Versions(0, 5),  # DescribeGroups
    16: Versions(0, 5),  # ListGroups
    SASL_HANDSHAKE: Versions(0, 1),
    API_VERSIONS: Versions(0, 3),
    19: Versions(2, 7),  # CreateTopics
    20: Versions(1, 5),  # DeleteTopics
    21: Versions(0, 2),  # DeleteRecords
    22: Versions(0, 4),  # InitProducerId
    32: Versions(1, 4),  # DescribeConfigs
    33: Versions(0, 2),  # AlterConfigs
    SASL_AUTHENTICATE: Versions(0, 2),
    37: Versions(0, 3),  # CreatePartitions
    42: Versions(0, 2),  # DeleteGroups
    44: Versions(0, 1),  # IncrementalAlterConfigs
    47: Versions(0, 0),  # OffsetDelete
}
"""Requests by key. Later versions of some name topics by ids, which logs do not have."""


class Header(NamedTuple):
    """The header of a request."""

    api_key: int
    version: int
    correlation: int
    client: str

    @property
    def is_known(self) -> bool:
        """Whether requests of this key and version are answered."""
        known = VERSIONS.get(self.api_key)
        return known is not None and known.lowest <= self.version <= known.highest


def decode_request(message: bytes) -> tuple[Header, Any]:
    """Return a request's header, and its body; None if its version is not known.

    Raises `InvalidRequestError` for bytes that are not a request.
    """
    if len(message) < 8:
        raise InvalidRequestError(f"a request of {len(message)} bytes is too short")
    key, version = int.from_bytes(message[:2], signed=True), int.from_bytes(message[2:4])
    header = Header(key, version, int.from_bytes(message[4:8], signed=True), "")
    if not header.is_known:
        return header, None
    schema = load_request_schema(key, version)
    try:
        found, size = entity_reader(schema.__header_schema__)(message, 0)
        check_lengths(schema, message, size)
        body, _ = entity_reader(schema)(message, size)
    except Exception as error:  # whatever kio raises for bytes that do not add up
        raise InvalidRequestError(
            f"a request of key {key} and version {version} does not add up: {error}"
        ) from error
    return header._replace(client=getattr(found, "client_id", None) or ""), body


def encode_answer(header: Header, fields: Fields, version: int | None = None) -> bytes:
    """Return the frame that answers a request.

    Args:
        header: the request's header.
        fields: the answer's fields.
        version: the answer's version, by default the request's.
    """
    schema = load_response_schema(header.api_key, header.version if version is None else version)
    out = io.BytesIO()
    out.write(header.correlation.to_bytes(4, signed=True))
    # The header of newer versions ends with its tagged fields: none.
    if "v1" in schema.__header_schema__.__module__:
        out.write(b"\0")
    entity_writer(schema)(out, entity(schema, fields))
    message = out.getvalue()
    return len(message).to_bytes(4) + message


def entity(schema: type[Any], fields: Fields) -> Any:
    """Return a message of a schema with these fields; others of them it does not have."""
    given: dict[str, Any] = {}
    for name, kind in _fields_of(cast(Hashable, schema)).items():
        if name == "throttle_time":
            given[name] = fields.get(name, timedelta(0))
        elif name in fields:
            value = fields[name]
            if name == "error_message" and value is not None:
                value = value[:MESSAGE_CHARACTERS_MAX]
            if kind is not None and isinstance(value, Sequence):
                value = tuple(entity(kind, each) for each in value)
            given[name] = tuple(value) if isinstance(value, list) else value
    return schema(**given)


@cache
def _fields_of(schema: Any) -> dict[str, type[Any] | None]:
    """Return the fields of a schema, each with the schema of its elements if it has one."""
    hints = typing.get_type_hints(schema)
    return {field.name: _element(hints[field.name]) for field in dataclasses.fields(schema)}


def _element(kind: Any) -> type[Any] | None:
    for each in typing.get_args(kind):
        if isinstance(each, type) and dataclasses.is_dataclass(each):
            return each
        if (found := _element(each)) is not None:
            return found
    return None
