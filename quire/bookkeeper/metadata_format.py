"""Records of ledgers as Apache BookKeeper writes them, and the metadata that they hold.

    "BookieMetadataFormatVersion\t<version>\n" and a body

    3    the size of a message as a varint, and the message       the default of current releases
    2    the same message in protobuf's text format
    1    lines: Qw, E, length, one for each fragment, the end     of releases before 4.2

A record keeps its version, its password, its custom values and the fields of later releases when
its metadata change: `ApacheRecord.with_metadata`. Passwords stand in clear text in these records;
they never leave this module except into a record, and as the check of a key.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from quire.bookkeeper import text_format
from quire.bookkeeper.protobuf import Field, MalformedError, Message, as_text, encode
from quire.bookkeeper.text_format import Name, TextField
from quire.entry import DigestKind, EntryId, LedgerId, access_key, key_check
from quire.errors import CorruptRecordError, InvalidRequestError, LedgerClosedError
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from quire.wire.varint import read_varint, varint

T = TypeVar("T")

HEAD: Final = b"BookieMetadataFormatVersion\t"
VERSIONS: Final = (1, 2, 3)
NEWEST: Final = 3

DIGESTS: Final[Mapping[int, DigestKind]] = {
    1: DigestKind.CRC32,
    2: DigestKind.HMAC_SHA1,
    3: DigestKind.CRC32C,
    4: DigestKind.NONE,
}
"""HMAC-SHA256 has no number: no client of Apache's knows it."""

STATES: Final[Mapping[int, LedgerState]] = {
    1: LedgerState.OPEN,
    2: LedgerState.IN_RECOVERY,
    3: LedgerState.CLOSED,
}

TOKEN_DIGITS: Final = 32
"""quire writes a token as so many hexadecimal digits; the record keeps the last 63 bits of it."""

_TOKEN_MAX: Final = 2**63 - 1

_DIGEST_NUMBERS: Final = {kind: number for number, kind in DIGESTS.items()}
_STATE_NUMBERS: Final = {state: number for number, state in STATES.items()}

QW, E, LENGTH, LAST, STATE, SEGMENT, DIGEST, PASSWORD, QA, CTIME, CUSTOM, TOKEN = range(1, 13)
"""The fields of the message."""

_TEXT_NAMES: Final[Mapping[int, str]] = {
    QW: "quorumSize",
    E: "ensembleSize",
    LENGTH: "length",
    LAST: "lastEntryId",
    STATE: "state",
    SEGMENT: "segment",
    DIGEST: "digestType",
    PASSWORD: "password",
    QA: "ackQuorumSize",
    CTIME: "ctime",
    CUSTOM: "customMetadata",
    TOKEN: "cToken",
}
_INNER_NAMES: Final[Mapping[int, Mapping[int, str]]] = {
    SEGMENT: {1: "ensembleMember", 2: "firstEntryId"},
    CUSTOM: {1: "key", 2: "value"},
}
_ENUMERATIONS: Final[Mapping[int, Mapping[int, str]]] = {
    DIGEST: {1: "CRC32", 2: "HMAC", 3: "CRC32C", 4: "DUMMY"},
    STATE: {1: "OPEN", 2: "IN_RECOVERY", 3: "CLOSED"},
}
_RECOVERY_MARK: Final = -102
"""The last entry of a ledger in recovery, in records of version 1."""


@dataclass(frozen=True, slots=True)
class ApacheRecord:
    """A record: the metadata, and what else it has to keep."""

    metadata: LedgerMetadata
    version: int = NEWEST
    password: bytes | None = field(default=None, repr=False)
    """None where the record has neither password nor digest: then any key may be the right one."""
    ctime: int | None = None
    custom: tuple[tuple[str, bytes], ...] = ()
    unknown: bytes = b""
    """Fields of a later release, of records of version 3."""
    unknown_of_fragments: Mapping[EntryId, bytes] = field(default_factory=dict)
    """The same of each fragment that has some, by its first entry."""

    def with_metadata(self, metadata: LedgerMetadata) -> ApacheRecord:
        """Return the record with other metadata; everything else stays as it is."""
        return replace(self, metadata=metadata)

    def encode(self) -> bytes:
        """Return the record's bytes.

        Raises `InvalidRequestError` when its version cannot hold its metadata.
        """
        head = HEAD + str(self.version).encode() + b"\n"
        if self.version == 1:
            return head + _lines(self.metadata).encode()
        fields = self._fields()
        if self.version == 2:
            return head + text_format.render(_pairs(fields)).encode()
        body = encode(_binary(fields, self.unknown_of_fragments)) + self.unknown
        return head + varint(len(body)) + body

    def _fields(self) -> list[tuple[int, object]]:
        value = self.metadata
        ended = value.is_closed
        known = self.password is not None
        return [
            (QW, value.replication.write_quorum),
            (E, value.replication.ensemble),
            (LENGTH, value.length if ended else 0),
            (LAST, value.last_entry if ended else -1),
            (STATE, _STATE_NUMBERS[value.state]),
            *((SEGMENT, each) for each in value.fragments),
            (DIGEST, _digest_number(value.digest) if known else None),
            (PASSWORD, self.password),
            (QA, value.replication.ack_quorum),
            (CTIME, self.ctime),
            *((CUSTOM, each) for each in self.custom),
            (TOKEN, token_number(value.token) if self.version > 2 else None),
        ]


def new_record(metadata: LedgerMetadata, password: bytes) -> ApacheRecord:
    """Return the record of a new ledger. Raises `InvalidRequestError` for a digest or a token that
    records of Apache's do not have.
    """
    _digest_number(metadata.digest)
    token_number(metadata.token)
    custom = tuple((name, text.encode()) for name, text in metadata.custom_metadata.items())
    return ApacheRecord(metadata, NEWEST, password, metadata.created_ms, custom)


def token_number(token: str) -> int:
    """Return the number that a record has for a token, 0 for none."""
    if not token:
        return 0
    try:
        found = int(token, 16)
    except ValueError:
        found = -1
    if not 0 <= found <= _TOKEN_MAX or token != _token(found):
        raise InvalidRequestError(f"token {token!r} is not {TOKEN_DIGITS} digits of 63 bits")
    return found


def _token(number: int) -> str:
    return f"{number:0{TOKEN_DIGITS}x}" if number else ""


def decode(path: str, ledger: LedgerId, data: bytes, digest: DigestKind) -> ApacheRecord:
    """Return the record of a ledger.

    Args:
        path: where it was read, for errors.
        ledger: the ledger: records do not name it.
        data: its bytes.
        digest: the digest of a ledger if its record has none.

    Raises:
        CorruptRecordError: the bytes do not make a record, or contradict themselves.
    """
    head, newline, body = data.partition(b"\n")
    try:
        if not newline or not head.startswith(HEAD):
            raise MalformedError(f"it does not begin with {HEAD.decode().strip()}")
        version = int(head[len(HEAD) :])
        if version not in VERSIONS:
            raise MalformedError(f"its format has version {version}, known are 1 to {NEWEST}")
        if version == 1:
            return _of_lines(ledger, body.decode(), digest)
        message = Message(_delimited(body) if version == 3 else _binary_of_text(body.decode()))
        return _of_message(ledger, version, message, digest)
    except (ValueError, IndexError, LedgerClosedError) as error:
        raise CorruptRecordError(path, str(error)) from error


def _of_message(
    ledger: LedgerId, version: int, message: Message, digest: DigestKind
) -> ApacheRecord:
    password = message.data(PASSWORD) if message.has(PASSWORD) else None
    if password is not None and message.has(DIGEST):
        digest = _known(DIGESTS, message.number(DIGEST), "digest")
    write_quorum = message.number(QW)
    state = _known(STATES, message.number(STATE), "state")
    closed = state is LedgerState.CLOSED
    custom = tuple(map(_custom, message.parts(CUSTOM)))
    token = message.number(TOKEN, 0)
    metadata = LedgerMetadata(
        ledger=ledger,
        replication=Replication(message.number(E), write_quorum, message.number(QA, write_quorum)),
        digest=digest,
        key_check="" if password is None else key_check(access_key(password)),
        fragments=tuple(map(_fragment, message.parts(SEGMENT))),
        state=state,
        last_entry=message.number(LAST) if closed else None,
        length=message.number(LENGTH) if closed else None,
        custom_metadata={name: _shown(value) for name, value in custom},
        created_ms=max(message.number(CTIME, 0), 0),
        token=_token(token) if token > 0 else "",
    )
    ctime = message.number(CTIME) if message.has(CTIME) else None
    unknown = message.unknown(range(1, 13))
    of_fragments = dict(map(_unknown_of_fragment, message.parts(SEGMENT)))
    kept = {first: each for first, each in of_fragments.items() if each}
    return ApacheRecord(metadata, version, password, ctime, custom, unknown, kept)


def _fragment(data: bytes) -> Fragment:
    part = Message(data)
    return Fragment(part.number(2), tuple(as_text(1, each) for each in part.parts(1)))


def _unknown_of_fragment(data: bytes) -> tuple[EntryId, bytes]:
    part = Message(data)
    return part.number(2), part.unknown((1, 2))


def _custom(data: bytes) -> tuple[str, bytes]:
    part = Message(data)
    return part.text(1, ""), part.data(2, b"")


def _shown(value: bytes) -> str:
    """Return a custom value as text: bytes that are not UTF-8 are shown as escapes."""
    return value.decode(errors="backslashreplace")


def _known(names: Mapping[int, T], number: int, what: str) -> T:
    if number not in names:
        raise MalformedError(f"{what} {number} is not known")
    return names[number]


def _digest_number(kind: DigestKind) -> int:
    if kind not in _DIGEST_NUMBERS:
        raise InvalidRequestError(
            f"Apache BookKeeper has no digest {kind}: give {', '.join(_DIGEST_NUMBERS)}"
        )
    return _DIGEST_NUMBERS[kind]


def _delimited(body: bytes) -> bytes:
    size, at = read_varint(body, 0)
    if at + size != len(body):
        raise MalformedError(f"a message of {size} bytes in {len(body) - at}")
    return body[at:]


def _binary(
    fields: Iterable[tuple[int, object]], unknown_of_fragments: Mapping[EntryId, bytes]
) -> Iterator[Field]:
    for key, value in fields:
        match value:
            case Fragment():
                seats: list[Field] = [(1, bookie) for bookie in value.bookies]
                unknown = unknown_of_fragments.get(value.first, b"")
                yield key, encode([*seats, (2, value.first)]) + unknown
            case (str() as name, bytes() as data):
                yield key, encode([(1, name), (2, data)])
            case int() | bytes() | None:
                yield key, value


def _pairs(fields: Iterable[tuple[int, object]]) -> Iterator[TextField]:
    for key, value in fields:
        name = _TEXT_NAMES[key]
        match value:
            case Fragment():
                seats = [TextField("ensembleMember", bookie.encode()) for bookie in value.bookies]
                yield TextField(name, (*seats, TextField("firstEntryId", value.first)))
            case (str() as custom, bytes() as data):
                yield TextField(name, (TextField("key", custom.encode()), TextField("value", data)))
            case int() if key in _ENUMERATIONS:
                yield TextField(name, Name(_ENUMERATIONS[key][value]))
            case int() | bytes():
                yield TextField(name, value)


def _binary_of_text(text: str) -> bytes:
    """Return the message that a text says; a name that is not known cannot be written back."""
    fields: list[Field] = []
    for name, value in text_format.parse(text):
        key = _key(_TEXT_NAMES, name)
        if isinstance(value, tuple):
            inner = _INNER_NAMES.get(key, {})
            fields.append((key, encode((_key(inner, each), _plain(part)) for each, part in value)))
        elif key in _ENUMERATIONS:
            fields.append((key, _key(_ENUMERATIONS[key], str(value))))
        else:
            fields.append((key, _plain(value)))
    return encode(fields)


def _key(names: Mapping[int, str], name: str) -> int:
    for key, each in names.items():
        if each == name:
            return key
    raise MalformedError(f"{name!r} is not known")


def _plain(value: object) -> int | bytes:
    if isinstance(value, int | bytes):
        return value
    raise MalformedError(f"{value!r} is neither number nor string")


def _lines(value: LedgerMetadata) -> str:
    """Return the body of a record of version 1, which has neither Qa nor digest nor password."""
    replication = value.replication
    if replication.ack_quorum != replication.write_quorum:
        raise InvalidRequestError("a record of version 1 has no ack quorum of its own")
    lines = [replication.write_quorum, replication.ensemble, value.length or 0]
    rows = ["\t".join((str(each.first), *each.bookies)) for each in value.fragments]
    text = "\n".join([*map(str, lines), *rows])
    if value.state is LedgerState.OPEN:
        return text
    end = value.last_entry if value.is_closed else _RECOVERY_MARK
    return f"{text}\n{end}\tCLOSED"


def _of_lines(ledger: LedgerId, text: str, digest: DigestKind) -> ApacheRecord:
    lines = [line for line in text.split("\n") if line]
    write_quorum, ensemble, length = map(int, lines[:3])
    state, end = LedgerState.OPEN, None
    rows = [line.split("\t") for line in lines[3:]]
    if rows and rows[-1][1:] == ["CLOSED"]:
        end = int(rows.pop()[0])
        state = LedgerState.IN_RECOVERY if end == _RECOVERY_MARK else LedgerState.CLOSED
    closed = state is LedgerState.CLOSED
    metadata = LedgerMetadata(
        ledger=ledger,
        replication=Replication(ensemble, write_quorum, write_quorum),
        digest=digest,
        key_check="",
        fragments=tuple(Fragment(int(first), tuple(bookies)) for first, *bookies in rows),
        state=state,
        last_entry=end if closed else None,
        length=length if closed else None,
    )
    return ApacheRecord(metadata, version=1)
