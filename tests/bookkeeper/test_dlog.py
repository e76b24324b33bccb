"""Entries, segments and namespaces of DistributedLog: golden bytes of its library, damage."""

from __future__ import annotations

import base64
import pickle
import struct
from contextlib import suppress
from dataclasses import replace

import lz4.block
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.bookkeeper.dlog.log import DlogPiece
from quire.bookkeeper.dlog.names import DlogName, Dlsn, servers_of
from quire.bookkeeper.dlog.namespace import decode_namespace
from quire.bookkeeper.dlog.records import (
    UNPACKED_BYTES_MAX,
    Packed,
    Positions,
    decode_records,
)
from quire.bookkeeper.dlog.segments import DlogSegment, arrange, decode_segment
from quire.bookkeeper.protobuf import MalformedError
from quire.errors import (
    ConfigurationError,
    CorruptRecordError,
    InvalidRequestError,
    UnreadableContentError,
)
from tests.support.dlog import AGAIN, GOLDEN, SETS, THREE


def records(name: str) -> list[Packed]:
    return list(decode_records(GOLDEN[name], enveloped=name != "bare"))


def record(payload: bytes, metadata: int = 1 << 16, txid: int = 1) -> bytes:
    return struct.pack(">Qqi", metadata, txid, len(payload)) + payload


def packet(body: bytes, version: int = 1, codec: int = 0, unpacked: int | None = None) -> bytes:
    size = len(body) if unpacked is None else unpacked
    return struct.pack(">BIII", version, codec, size, len(body)) + body


def record_set(metadata: int, count: int, body: bytes, unpacked: int | None = None) -> bytes:
    size = len(body) if unpacked is None else unpacked
    return record(struct.pack(">IIII", metadata, count, size, len(body)) + body, 1 << 16 | 4)


@pytest.mark.parametrize("name", ["bare", "plain", "lz4"])
def test_an_entry_has_its_records_without_those_for_control(name: str) -> None:
    assert records(name) == [Packed(0, 7, 1, b"one"), Packed(2, 9, 2, AGAIN)]
    assert [each.payload for each in records(name)] == THREE


def test_record_sets_are_taken_apart() -> None:
    *sets, end = records("sets")
    assert [each.payload for each in sets] == SETS
    assert [each.slot for each in sets] == [0, 1, 2, 3, 4, 5]
    assert [each.txid for each in sets] == [11] * 3 + [12] * 3
    assert end == Packed(6, 2**63 - 1, 2, b"endOfStream", is_end=True)


def test_a_set_counts_a_position_for_each_record() -> None:
    body = b"".join(struct.pack(">i", 1) + each for each in (b"a", b"b", b"c"))
    data = packet(record(b"x") + record_set(0x1000, 3, body).replace(b"\1\0\4", b"\2\0\4", 1))
    found = list(decode_records(data, enveloped=True))
    assert [each.position for each in found] == [1, 2, 3, 4]
    assert [each.slot for each in found] == [0, 1, 2, 3]


ACTIVE, PARTIAL, WHOLE = 0, 1, 2
FOUR = lz4.block.compress(b"four", store_size=False)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x01\x00", "packet ends after 2 bytes"),
        (packet(record(b"x"), version=2), "packet has version 2"),
        (packet(record(b"x"), codec=2), "codec 2"),
        (packet(record(b"x"), codec=0x100), "codec 256"),
        (packet(record(b"x")) + b"y", "21 bytes are announced, and 22 follow"),
        (packet(record(b"x"))[:-1], "21 bytes are announced, and 20 follow"),
        (packet(record(b"x"), unpacked=9), "21 bytes unpacked, and 9 are announced"),
        (packet(b"x", codec=1, unpacked=UNPACKED_BYTES_MAX + 1), "the limit is"),
        (packet(b"zz", codec=1, unpacked=4), "LZ4"),
        (packet(FOUR, codec=1, unpacked=5), "4 bytes unpacked, and 5 are announced"),
        (packet(record(b"x") + b"yy"), "2 bytes are left for the head"),
        (packet(struct.pack(">Qqi", 1 << 16, 1, -1)), "a record has -1 bytes, and 0 are left"),
        (packet(struct.pack(">Qqi", 1 << 16, 1, 5) + b"four"), "has 5 bytes, and 4 are left"),
        (packet(record(b"x", 1 << 16 | 8)), "0x0000000000010008"),
        (packet(record(b"x", 1 << 48)), "0x0001000000000000"),
        (packet(record(b"short", 4)), "record set ends after 5 bytes"),
        (packet(record_set(0x2000, 0, b"")), "version 0x2000"),
        (packet(record_set(0x1003, 0, b"")), "codec 3"),
        (packet(record_set(0x1000, 1, b"")), "set of 1 records ends after 0 bytes"),
        (packet(record_set(0x1000, 1, b"\0\0\0\5four")), "has 5 bytes, and 4 are left"),
        (packet(record_set(0x1000, 0, b"four")), "4 bytes follow a set of 0"),
    ],
)
def test_damaged_or_unknown_entries_are_errors(data: bytes, why: str) -> None:
    with pytest.raises(MalformedError, match=why):
        list(decode_records(data, enveloped=True))


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_records_or_a_typed_error(noise: bytes, enveloped: bool) -> None:
    for data in (noise, packet(noise), packet(record(noise, 4)), packet(noise, codec=1)):
        with suppress(MalformedError):
            list(decode_records(data, enveloped=enveloped))


@given(st.sampled_from(["plain", "lz4", "sets"]), st.data())
def test_a_shorter_entry_is_an_error(name: str, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(GOLDEN[name]) - 1))
    with pytest.raises(MalformedError):
        list(decode_records(GOLDEN[name][:end], enveloped=True))


def positions(*numbers: int, from_first: bool = True) -> None:
    seen = Positions(from_first=from_first)
    for number in numbers:
        seen.take(Packed(0, 0, number, b""))


def test_missing_records_are_noticed() -> None:
    positions(1, 2, 3)
    positions(0, 0, 0)
    positions(7, 8, from_first=False)
    for missing, last, wrong in (((2,), 0, 2), ((1, 3), 1, 3), ((1, 1), 1, 1), ((1, 0), 1, 0)):
        with pytest.raises(MalformedError, match=f"record {wrong} of the .* record {last}"):
            positions(*missing)
    with pytest.raises(MalformedError, match="record 9 of the segment follows record 7"):
        positions(7, 9, from_first=False)


def test_nothing_follows_the_end_of_a_log() -> None:
    seen = Positions(from_first=True)
    seen.take(Packed(0, 0, 1, b""))
    seen.take(Packed(1, 0, 1, b"", is_end=True))
    with pytest.raises(MalformedError, match="the end of the log"):
        seen.take(Packed(2, 0, 2, b""))


def segment(name: str) -> DlogSegment:
    return decode_segment(f"/l/{name}", GOLDEN[name])


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_records_of_segments_in_all_versions(version: int) -> None:
    opened, complete = segment(f"open{version}"), segment(f"complete{version}")
    is_cut = version in (3, 5)
    assert opened == DlogSegment(
        path=f"/l/open{version}",
        number=4,
        ledger=26,
        version=version,
        truncation=0,
        begin=Dlsn(4, 0, 0),
        last_txid=None,
        count=0,
        last_entry=-1,
        start=None,
    )
    assert not opened.is_complete
    assert complete == DlogSegment(
        path=f"/l/complete{version}",
        number=4,
        ledger=26,
        version=version,
        truncation={2: ACTIVE, 3: PARTIAL, 4: WHOLE, 5: PARTIAL}[version],
        begin=Dlsn(4, 3, 2) if is_cut else Dlsn(4, 0, 0),
        last_txid=200,
        count=8,
        last_entry=7,
        start=55 if version == 5 else None,
    )
    assert complete.is_complete
    assert opened.is_enveloped is complete.is_enveloped is (version >= 4)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not numbers"),
        (b"5;x", "not numbers"),
        (b"5;26;100;4;0;0;0\n", "not numbers"),
        (b"5;26;100;4;0;0", "version 5 has 7 or 11 fields, not 6"),
        (b"2;26;100;4;0", "version 2 has 4 or 8 fields, not 5"),
        (b"773;26;100;4;0;0;0", "impossible"),
        (b"5;26;100;-4;0;0;0", "impossible"),
        (b"5;26;100;4;0;0;-2", "impossible"),
        (b"5;26;100;4;0;0;4611686018427387905", "impossible"),
        (b"-4294967291;26;100;4;0;0;0", "impossible"),
        (b"261;26;100;200;1;4;7;0;-1;0;55", "impossible"),
        (b"261;26;100;200;1;4;7;0;3;-1;55", "impossible"),
        (b"261;26;100;200;1;4;7;0;8;0;55", "impossible"),
        (b"9999999999999999999;26;100;4;0;0;0", "64 bits"),
        (b"5;9999999999999999999;100;4;0;0;0", "number 9999999999999999999 has more than 64 bits"),
    ],
)
def test_damaged_records_of_segments_are_errors(data: bytes, why: str) -> None:
    with pytest.raises(CorruptRecordError, match=f"/l/s is corrupt: .*{why}"):
        decode_segment("/l/s", data)


@pytest.mark.parametrize("text", ["1;26;100", "6;26;100;4;0;0;0", "0;26;100"])
def test_other_versions_of_segments_are_refused_by_name(text: str) -> None:
    with pytest.raises(UnreadableContentError, match=f"/l/s has a record of version {text[0]}: "):
        decode_segment("/l/s", text.encode())


def complete(number: int, truncation: int = ACTIVE, start: int = -1, count: int = 3) -> DlogSegment:
    head = 5 | truncation << 8 | count << 32
    text = f"{head};{number};1;2;3;{number};9;0;4;1;{start}"
    return decode_segment(f"/l/{number}", text.encode())


def opened(number: int) -> DlogSegment:
    return decode_segment(f"/l/{number}", f"5;{number};1;{number};0;0;-1".encode())


def test_segments_are_read_in_their_order_from_what_is_left() -> None:
    found = [complete(5), complete(4, PARTIAL), complete(3, WHOLE), complete(2, WHOLE), opened(6)]
    kept = arrange("/l", found)
    assert [each.number for each in kept] == [4, 5, 6]
    assert [each.begin for each in kept] == [Dlsn(4, 4, 1), Dlsn(5, 0, 0), Dlsn(6, 0, 0)]
    assert arrange("/l", [complete(1, WHOLE)]) == arrange("/l", []) == []


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([complete(1), complete(3)], "segment 3 follows segment 1"),
        ([complete(1), opened(1)], "segment 1 follows segment 1"),
        ([complete(1), complete(2, WHOLE)], "segment 2 is truncated, and an older one is not"),
        ([complete(1), complete(2, PARTIAL)], "segment 2 is truncated, and an older one is not"),
        ([complete(1), replace(complete(2), ledger=1)], "/l/2 .*it has ledger 1, and .* segment 1"),
    ],
)
def test_lists_of_segments_that_cannot_be_are_errors(found: list[DlogSegment], why: str) -> None:
    with pytest.raises(CorruptRecordError, match=why):
        arrange("/l", found)


def test_open_segments_count_on_from_the_last_complete_one() -> None:
    def starts(*found: DlogSegment) -> list[int | None]:
        return [each.start for each in arrange("/l", found)]

    assert starts(complete(1, start=0), complete(2, start=3), opened(3)) == [0, 3, 6]
    assert starts(opened(1)) == [0]
    assert starts(complete(1), opened(2), opened(3)) == [None, 0, None]
    old = decode_segment("/l/2", b"4;2;1;2;0;0")
    assert starts(complete(1, start=0), old) == [0, None]


def test_namespaces() -> None:
    found = decode_namespace("/ns", GOLDEN["namespace"])
    servers = servers_of("zoo1:2181,zoo2")
    assert found.ledgers == "/ledgers"
    assert found.ledger_servers == found.log_servers == servers
    assert not found.is_federated
    text = '1\nBKDL\n{"1":{"str":"zoo1;zoo2/root"},"2":{"str":"/ledgers/"},"10":{"tf":1}}'
    other = decode_namespace("/ns", text.encode())
    assert (other.ledgers, other.ledger_servers) == ("/root/ledgers", servers)
    assert other.log_servers == frozenset()
    assert other.is_federated


DAMAGED_NAMESPACES = (
    "",
    "x",
    "1\nBKDL",
    "x\nBKDL\n{}",
    "1\nBKDL\n{",
    "1\nBKDL\n[]",
    '1\nBKDL\n{"2":{"str":"/l"}}',
    '1\nBKDL\n{"1":{"str":3},"2":{"str":"/l"}}',
    '1\nBKDL\n{"1":{"str":""},"2":{"str":"/l"}}',
    "1\nBKDL\n" + "[" * 100_000,
)


@pytest.mark.parametrize("text", DAMAGED_NAMESPACES, ids=len)
def test_damaged_namespaces_are_errors(text: str) -> None:
    with pytest.raises(CorruptRecordError, match="/ns"):
        decode_namespace("/ns", text.encode())


@pytest.mark.parametrize("head", ["2\nBKDL", "1\nOTHER"])
def test_other_namespaces_are_refused_by_name(head: str) -> None:
    with pytest.raises(UnreadableContentError, match="namespace /ns has a record of version"):
        decode_namespace("/ns", f"{head}\n{{}}".encode())


def test_names_of_logs() -> None:
    name = DlogName.parse("/messaging/ns/orders")
    assert name.servers is None
    assert name.segments_path == "/messaging/ns/orders/<default>/ledgers"
    assert name.namespaces == ("/messaging/ns", "/messaging")
    for scheme in ("distributedlog", "distributedlog-bk"):
        full = DlogName.parse(f"{scheme}://zoo1;zoo2:2182/messaging/ns/orders")
        assert (full.path, full.servers) == (name.path, servers_of("zoo1,zoo2:2182"))
    for bad in ("orders", "/orders", "zk://zoo1/ns/orders", "distributedlog:///ns/o", "/a//b", ""):
        with pytest.raises(ConfigurationError, match="form /namespace/name"):
            DlogName.parse(bad)


def test_dlsns_of_the_library_are_read() -> None:
    assert Dlsn.parse(GOLDEN["dlsn"].decode()) == Dlsn.parse("4:17:2") == Dlsn(4, 17, 2)


@given(st.builds(Dlsn, *[st.integers(0, 2**62)] * 3))
def test_dlsns_are_read_as_they_are_written(one: Dlsn) -> None:
    assert Dlsn.parse(str(one)) == one
    assert one < one.next


NOWHERE = base64.b64encode(struct.pack(">Bqqq", 1, 0, -1, -1)).decode()


@pytest.mark.parametrize(
    "bad", ["", "1:2", "1:2:3:4", "-1:2:3", "a:b:c", "AAAA", "AQ==", NOWHERE, f"x{NOWHERE}"]
)
def test_other_texts_are_no_dlsns(bad: str) -> None:
    with pytest.raises(InvalidRequestError, match="form SEGMENT:ENTRY:SLOT"):
        Dlsn.parse(bad)


def test_a_piece_can_be_sent_to_another_process() -> None:
    piece = DlogPiece("/ns/log", 4, 26, 0, 7, Dlsn(4, 3, 2), True, 55)
    assert pickle.loads(pickle.dumps(piece)) == piece
