"""Every record and state file, damaged in any way: recognised, or as good as what was written.

Two kinds of damage. Bytes that changed must be found by the checksum. Content that changed *under*
its checksum, as another program or version would write it, must be refused by name or be a value
that its own module could have written: nothing half-understood, and no error without a name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quire.bookie import BookieAddress
from quire.election.ballot import Term, decode_term, encode_term
from quire.entry import DigestKind
from quire.errors import CorruptRecordError, CorruptStorageError, QuireError
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.quorum import Replication
from quire.log.maintenance.cursor_record import CursorRecord
from quire.log.manifest.manifest import LogManifest, SegmentEnd
from quire.log.records.position import Position
from quire.metastore.record import decode_record, encode_record
from quire.metastore.registration import decode_registration, encode_registration
from quire.storage.disk.state_file import decode_state, encode_state
from quire.storage.entries.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from quire.storage.identity.cookie import BookieCookie, decode_cookie, encode_cookie
from quire.storage.journal.replay import JournalPosition

PATH = "somewhere"
DAMAGE = (CorruptRecordError, CorruptStorageError)

LEDGER = LedgerMetadata(
    7,
    Replication(3, 3, 2),
    DigestKind.CRC32C,
    "0" * 64,
    (Fragment(0, ("a", "b", "c")), Fragment(9, ("a", "d", "c"))),
    custom_metadata={"owner": "somebody"},
    token="00ff",
)
MANIFEST = LogManifest("a", "id", 5).take_over({}, 7, 6)
SEALED = MANIFEST.append_segment(8, 7).seal_segment(1, SegmentEnd(3, 1, 4, 40, 0))


@dataclass(frozen=True)
class Format:
    """A format: an example's bytes, and how they are read, written again and taken apart."""

    name: str
    data: bytes
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    is_file: bool = False

    def reseal(self, change: Callable[[dict[str, Any]], None]) -> bytes:
        """Return the example with its content changed, under a true checksum."""
        kind = self.data.split(b" ", 2)[1].decode()
        if self.is_file:
            body = decode_state(PATH, kind, 1, self.data)
            change(body)
            return encode_state(kind, 1, body)
        version, body = decode_record(PATH, kind, self.data)
        change(body)
        return encode_record(kind, version, body)


def record(name: str, value: Any) -> Format:
    kind = type(value)
    return Format(name, value.encode(), lambda data: kind.decode(PATH, data), kind.encode)


FORMATS = [
    record("ledger", LEDGER),
    record("closed ledger", LEDGER.closed(12, 100)),
    record("manifest", MANIFEST),
    record("sealed manifest", SEALED),
    record("cursor", CursorRecord("reader", "id", Position(1, 2, 3), 5)),
    Format(
        "registration",
        encode_registration(BookieAddress("b", "host:1", True)),
        lambda data: decode_registration("b", data),
        encode_registration,
    ),
    Format(
        "term",
        encode_term(Term(3, "me", "c-1", "00")),
        lambda data: decode_term(PATH, data),
        encode_term,
    ),
    Format(
        "cookie",
        encode_cookie(BookieCookie("b" * 32, "c" * 32)),
        lambda data: decode_cookie(PATH, data),
        encode_cookie,
        is_file=True,
    ),
    Format(
        "checkpoint",
        encode_checkpoint(Checkpoint(3, JournalPosition(4, 4096, 17), (1, 2))),
        lambda data: decode_checkpoint(PATH, data),
        encode_checkpoint,
        is_file=True,
    ),
]

FORMAT = st.sampled_from(FORMATS)


def json_values(floats: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    """Values of JSON with such numbers."""
    return st.recursive(
        st.none() | st.booleans() | st.integers(-(2**70), 2**70) | floats | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=6,
    )


JSON = json_values(st.floats())
FINITE = json_values(st.floats(allow_nan=False, allow_infinity=False))


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_an_example_reads_back(each: Format) -> None:
    assert each.encode(each.decode(each.data)) == each.data


@settings(max_examples=600, deadline=None)
@given(FORMAT, st.data())
def test_changed_bytes_are_found(each: Format, data: st.DataObject) -> None:
    damaged = bytearray(each.data)
    at = data.draw(st.integers(0, len(damaged) - 1))
    match data.draw(st.sampled_from(["flip", "insert", "remove", "cut", "noise"])):
        case "flip":
            damaged[at] ^= 1 << data.draw(st.integers(0, 7))
        case "insert":
            damaged[at:at] = data.draw(st.binary(min_size=1, max_size=4))
        case "remove":
            del damaged[at : at + data.draw(st.integers(1, 8))]
        case "cut":
            del damaged[at:]
        case "noise":
            damaged[:] = data.draw(st.binary(max_size=100))
    if bytes(damaged) != each.data:
        with pytest.raises(DAMAGE):
            each.decode(bytes(damaged))


@settings(max_examples=800, deadline=None)
@given(FORMAT, st.data())
def test_changed_content_is_refused_or_understood(each: Format, data: st.DataObject) -> None:
    def change(body: dict[str, Any]) -> None:
        place: Any = body
        while True:
            keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
            key = data.draw(st.sampled_from(keys))
            inner = place[key]
            if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
                place = inner
                continue
            if data.draw(st.integers(0, 4)) == 0:
                del place[key]
            else:
                place[key] = data.draw(FINITE)
            return

    try:
        resealed = each.reseal(change)
    except UnicodeEncodeError:
        return
    try:
        value = each.decode(resealed)
    except DAMAGE:
        return
    try:
        again = each.encode(value)
    except QuireError as error:
        raise AssertionError(f"{value} was believed and cannot be written: {error}") from error
    assert each.decode(again) == value


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_a_record_of_another_kind_is_refused(each: Format) -> None:
    for other in FORMATS:
        if other.data.split(b" ")[1] != each.data.split(b" ")[1]:
            with pytest.raises(DAMAGE):
                each.decode(other.data)


def test_the_examples_are_not_the_same() -> None:
    assert len({each.data for each in FORMATS}) == len(FORMATS)
    assert replace(LEDGER, full_quorum=True).encode() != LEDGER.encode()
