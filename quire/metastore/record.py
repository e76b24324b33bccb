"""The envelope of every metadata record: one readable line, then canonical JSON.

    quire <kind> v<version> crc32c=<8 hex digits>\\n
    {"keys":"sorted", ...}

The checksum covers the kind, the version and the JSON, so a record cannot be taken for another kind
or an older format. Canonical means: equal bodies encode to equal bytes. The module that owns the
kind defines the body; bytes travel as base64 text there.

Every kind has a `RecordFormat`. It parts the fields that the kind knows from the fields of a later
program, so that no reader stumbles over these, and puts them back when the record is written again.

The module is pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import google_crc32c

from quire.errors import CorruptRecordError, InvalidRequestError
from quire.fields import NOTHING, Unknown, joined, split

_KIND: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_HEADER: Final = re.compile(
    rb"quire ([a-z][a-z0-9-]{0,31}) v([1-9][0-9]{0,8}) crc32c=([0-9a-f]{8})"
)
_HEADER_BYTES_MAX: Final = 80
"""More than the longest header: 6 + 32 + 11 + 16 bytes."""
_JSON: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


class DecodedRecord(NamedTuple):
    """The content of a record: the fields of its kind, and those of a later program."""

    version: int
    body: dict[str, Any]
    unknown: Unknown


@dataclass(frozen=True, slots=True)
class Encoded:
    """A value of a record's field that is JSON already.

    For a large field that most changes of a record leave as it is: `encode_value` once, and keep
    the result.
    """

    text: str


def encode_value(value: Any) -> Encoded:
    """Return a field's value as the text that it has in a record."""
    return Encoded(_JSON.encode(value))


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A kind of record: the fields that it has, and the versions that this program reads."""

    kind: str
    fields: frozenset[str]
    versions: tuple[int, ...] = (1,)

    def encode(
        self, body: Mapping[str, Any], unknown: Unknown = NOTHING, version: int | None = None
    ) -> bytes:
        """Return the record of some fields, in the first version or another.

        `unknown` are the fields of a later program, as `decode` returned them. Raises as
        `encode_record`.
        """
        assert self.fields.issuperset(body), f"{self.kind} has no {set(body) - self.fields}"
        return encode_record(self.kind, version or self.versions[0], joined(body, unknown))

    @staticmethod
    def checksum(record: bytes) -> int:
        """Return the CRC32C of a whole record, for a record that names it."""
        crc: int = google_crc32c.value(record)
        return crc

    def decode(self, path: str, data: bytes) -> DecodedRecord:
        """Verify a record read from `path` and return its content.

        Raises `CorruptRecordError`, naming the path, when it is not a whole record of this kind in
        a version that this program reads.
        """
        version, body = decode_record(path, self.kind, data)
        if version not in self.versions:
            raise CorruptRecordError(
                path,
                f"{self.kind} version {version} is not known here, only "
                f"{', '.join(map(str, self.versions))}: upgrade quire",
            )
        try:
            return DecodedRecord(version, *split(body, self.fields))
        except (ValueError, RecursionError) as error:
            raise CorruptRecordError(path, f"it cannot be written back: {error}") from error


def encode_record(kind: str, version: int, body: Mapping[str, Any]) -> bytes:
    """Return the record of a JSON-able mapping.

    Raises `InvalidRequestError` for an unusable kind or version, or a body that JSON cannot carry.
    """
    if not _KIND.fullmatch(kind) or not 0 < version < 10**9:
        raise InvalidRequestError(f"no record is of kind {kind!r} version {version}")
    try:
        text = _encode_body(body).encode()
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(f"body of {kind} record is not JSON: {error}") from error
    title = f"quire {kind} v{version}".encode()
    return b"%b crc32c=%08x\n%b" % (title, _checksum(title, text), text)


def _encode_body(body: Mapping[str, Any]) -> str:
    """Return the JSON of a body, its fields sorted by name."""
    parts: list[str] = []
    plain: dict[str, Any] = {}
    for name in sorted(body):
        if not isinstance(value := body[name], Encoded):
            plain[name] = value
            continue
        if plain:
            parts.append(_JSON.encode(plain)[1:-1])
            plain = {}
        parts.append(f"{_JSON.encode(name)}:{value.text}")
    if plain or not parts:
        parts.append(_JSON.encode(plain)[1:-1])
    return "{" + ",".join(parts) + "}"


def decode_record(path: str, kind: str, data: bytes) -> tuple[int, dict[str, Any]]:
    """Verify a record read from `path` and return its version and body.

    Raises `CorruptRecordError`, naming the path, when it is not a whole record of this kind.
    Whether the version can be understood is the caller's to say.
    """
    end = data.find(b"\n", 0, _HEADER_BYTES_MAX)
    header = _HEADER.fullmatch(data, 0, end) if end >= 0 else None
    if header is None:
        raise CorruptRecordError(path, f"no record header in {data[:32]!r}")
    found = header[1].decode()
    if found != kind:
        raise CorruptRecordError(path, f"is a {found} record, not a {kind} record")
    text = data[end + 1 :]
    if int(header[3], 16) != _checksum(data[: header.end(2)], text):
        raise CorruptRecordError(path, "checksum does not match")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:  # as 100,000 brackets, with a valid checksum
        raise CorruptRecordError(path, f"is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise CorruptRecordError(path, "is not a JSON object")
    return int(header[2]), body


def _checksum(title: bytes, text: bytes) -> int:
    crc: int = google_crc32c.extend(google_crc32c.value(title + b"\n"), text)
    return crc
