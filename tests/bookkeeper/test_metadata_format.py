"""Records of ledgers in three formats: golden bytes, and what stays when metadata change."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.bookkeeper.metadata_format import HEAD, decode, new_record, token_number
from quire.bookkeeper.protobuf import MalformedError, Message, encode, field
from quire.bookkeeper.text_format import TextField, parse, render
from quire.entry import DigestKind, access_key, key_check
from quire.errors import CorruptRecordError, InvalidRequestError
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication

SEAT = b"127.0.0.1:33302"
BODY = (
    bytes.fromhex("080310031 81e200428033235".replace(" ", ""))
    + (b"\x0a\x0f127.0.0.1:33301" + b"\x0a\x0f" + SEAT + b"\x0a\x0f127.0.0.1:33303" + b"\x10\x00")
    + bytes.fromhex("38034202")
    + b"pw"
    + bytes.fromhex("48025a0e0a03")
    + b"app\x12\x07interop"
    + bytes.fromhex("6000")
)
JAVAS = HEAD + b"3\n" + bytes([len(BODY)]) + BODY
"""A record that Java wrote: three bookies, closed at entry 4 with 30 bytes."""

TEXT = """BookieMetadataFormatVersion\t2
quorumSize: 2
ensembleSize: 3
length: 0
lastEntryId: -1
state: IN_RECOVERY
segment {
  ensembleMember: "b1:3181"
  ensembleMember: "b2:3181"
  ensembleMember: "b3:3181"
  firstEntryId: 0
}
digestType: HMAC
password: "p\\303\\274\\"\\\\"
ackQuorumSize: 2
"""
LINES = "BookieMetadataFormatVersion\t1\n2\n3\n0\n0\tb1:3181\tb2:3181\tb3:3181"


def test_a_record_of_java() -> None:
    record = decode("/p", 7, JAVAS, DigestKind.CRC32)
    found = record.metadata
    assert found.replication == Replication(3, 3, 2)
    assert (found.state, found.last_entry, found.length) == (LedgerState.CLOSED, 4, 30)
    assert found.last_fragment.bookies[1] == SEAT.decode()
    assert found.digest is DigestKind.CRC32C
    assert found.key_check == key_check(access_key(b"pw"))
    assert dict(found.custom_metadata) == {"app": "interop"}
    assert record.encode() == JAVAS
    assert "pw" not in repr(record)


def test_a_change_keeps_the_rest_of_the_record() -> None:
    later = JAVAS[:-2] + encode([(12, 5), (77, b"later")])
    data = HEAD + b"3\n" + bytes([len(BODY) + len(later) - len(JAVAS)])
    data += later[len(HEAD) + 3 :]
    record = decode("/p", 7, data, DigestKind.CRC32)
    moved = record.metadata.with_replica(0, 1, "b9")
    again = decode("/p", 7, record.with_metadata(moved).encode(), DigestKind.CRC32)
    assert again.metadata == moved
    assert (again.password, again.custom, again.unknown) == (
        b"pw",
        (("app", b"interop"),),
        encode([(77, b"later")]),
    )


def test_a_change_keeps_later_fields_of_fragments() -> None:
    metadata = LedgerMetadata(
        *(7, Replication(1, 1, 1), DigestKind.CRC32C, key_check(access_key(b"pw"))),
        (Fragment(0, ("b1",)), Fragment(5, ("b2",))),
    )
    body = new_record(metadata, b"pw").encode()[len(HEAD) + 3 :]
    first, second = (encode([(1, bookie), (2, at)]) for bookie, at in (("b1", 0), ("b2", 5)))
    later = encode([(9, b"later")])
    body = body.replace(field(6, second), field(6, second + later))
    assert field(6, first) in body
    record = decode("/p", 7, HEAD + b"3\n" + bytes([len(body)]) + body, DigestKind.CRC32)
    assert record.encode() == HEAD + b"3\n" + bytes([len(body)]) + body
    longer = metadata.with_fragment(Fragment(5, ("b3",))).with_fragment(Fragment(8, ("b4",)))
    after = record.with_metadata(longer).encode()
    assert field(6, encode([(1, "b3"), (2, 5)]) + later) in after
    assert after.count(b"later") == 1


def test_a_number_of_a_fixed_size_is_kept_as_it_was_written() -> None:
    """Of a later release, for example. One of another encoding means nothing to its readers."""
    later = bytes.fromhex("71 0102030405060708 7d ffffffff 7805")
    body = BODY + later
    data = HEAD + b"3\n" + bytes([len(body)]) + body
    record = decode("/p", 7, data, DigestKind.CRC32)
    moved = record.with_metadata(record.metadata.with_replica(0, 1, "b9")).encode()
    assert moved.endswith(later)
    assert record.encode() == data
    assert Message(later).numbers(14) == [0x0807060504030201]


def test_a_custom_value_that_is_no_text_stays_as_it_is() -> None:
    custom = encode([(1, "k"), (2, b"\xff\x00")])
    body = BODY[:-2] + encode([(11, custom)])
    data = HEAD + b"3\n" + bytes([len(body)]) + body
    record = decode("/p", 7, data, DigestKind.CRC32)
    assert record.metadata.custom_metadata["k"] == "\\xff\x00"
    assert record.encode() == HEAD + b"3\n" + bytes([len(body) + 2]) + body + b"\x60\x00"


def test_a_record_in_text() -> None:
    record = decode("/p", 7, TEXT.encode(), DigestKind.CRC32)
    found = record.metadata
    assert (found.state, found.digest) == (LedgerState.IN_RECOVERY, DigestKind.HMAC_SHA1)
    assert found.replication == Replication(3, 2, 2)
    assert record.password == 'pü"\\'.encode()
    assert record.encode().decode() == TEXT
    closed = record.with_metadata(found.closed(3, 99)).encode().decode()
    assert "\nstate: CLOSED\n" in closed
    assert "\nlastEntryId: 3\n" in closed


def test_a_record_in_lines_has_neither_password_nor_digest() -> None:
    record = decode("/p", 7, LINES.encode(), DigestKind.CRC32)
    found = record.metadata
    assert (found.key_check, found.digest) == ("", DigestKind.CRC32)
    assert found.replication == Replication(3, 2, 2)
    assert record.encode() == LINES.encode()
    recovering = found.with_state(LedgerState.IN_RECOVERY)
    assert record.with_metadata(recovering).encode() == f"{LINES}\n-102\tCLOSED".encode()
    closed = recovering.closed(3, 99)
    data = record.with_metadata(closed).encode()
    assert data.endswith(b"\n3\tCLOSED")
    assert decode("/p", 7, data, DigestKind.CRC32).metadata == closed


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"quire",
        HEAD + b"4\n",
        HEAD + b"x\n",
        HEAD + b"3\n\x05abc",
        HEAD + b"3\n\xff",
        HEAD + b"2\nquorumSize: 2",
        HEAD + b"2\nstate: NEW",
        HEAD + b"2\nsegment {",
        HEAD + b"1\n2\n",
        JAVAS.replace(b"\x28\x03", b"\x28\x09"),
        JAVAS.replace(b"\x10\x00\x38\x03", b"\x10\x05\x38\x03"),
    ],
)
def test_a_record_that_cannot_be_believed_is_told_by_its_path(data: bytes) -> None:
    with pytest.raises(CorruptRecordError, match="/p"):
        decode("/p", 7, data, DigestKind.CRC32)


@given(st.binary(max_size=200))
def test_no_record_raises_anything_else(body: bytes) -> None:
    for version in (b"1", b"2", b"3"):
        try:
            decode("/p", 7, HEAD + version + b"\n" + body, DigestKind.CRC32)
        except CorruptRecordError:
            continue


def test_a_new_record_is_read_as_it_was_made() -> None:
    wanted = LedgerMetadata(
        7,
        Replication(3, 3, 2),
        DigestKind.CRC32,
        key_check(access_key(b"pw")),
        (Fragment(0, ("a:1", "b:1", "c:1")),),
        custom_metadata={"owner": "me"},
        created_ms=1_700_000_000_000,
        token=f"{5:032x}",
    )
    record = new_record(wanted, b"pw")
    assert decode("/p", 7, record.encode(), DigestKind.CRC32C).metadata == wanted
    with pytest.raises(InvalidRequestError, match="hmac-sha256"):
        new_record(replace(wanted, digest=DigestKind.HMAC_SHA256), b"pw")
    for token in ("t", f"{2**63:032x}", "5"):
        with pytest.raises(InvalidRequestError, match="token"):
            token_number(token)


@given(st.binary())
def test_strings_of_the_text_format_are_read_as_they_were_written(value: bytes) -> None:
    assert parse(render([TextField("name", value)])) == (("name", value),)


def test_the_text_format_takes_other_spellings() -> None:
    text = "a: { b: 'x' } # note\n c < d: -5; > e: TRUE"
    assert parse(text) == (("a", (("b", b"x"),)), ("c", (("d", -5),)), ("e", "TRUE"))


def test_comments_are_passed_over_in_one_way_only() -> None:
    """Their last spaces could be part of them or follow them: each comment doubled the time."""
    comments = "# one  \n\n#two \t\n" * 500
    assert parse(f"{comments}a: 1 # end") == (("a", 1),)
    assert parse(comments) == ()
    with pytest.raises(MalformedError, match="no field"):
        parse(f"{comments}!")
