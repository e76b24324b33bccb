"""Golden bytes of both protocols, as Apache's own clients and bookies send them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.bookkeeper import wire2, wire3
from quire.bookkeeper.protobuf import Field, MalformedError, Message, encode
from quire.bookkeeper.status import CODES, Status, error_of
from quire.bookkeeper.wire3 import Operation
from quire.entry import DigestKind, Sealer
from quire.errors import BookieUnavailableError, NotFoundError

SEALER = Sealer(7, DigestKind.CRC32C, b"")
FRAME = SEALER.seal(1, 0, 5, b"hello")
KEY = bytes.fromhex("850bf1071c5e3d8c24235676f8816ae0cbe2f14f")


def q(number: int) -> str:
    return f"{number:016x}"


def joined(encoder: wire3.AddEncoder, transaction: int, frame: bytes) -> str:
    return b"".join(encoder.encode(transaction, [(1, frame)])).hex()


def test_an_add_of_the_third_protocol() -> None:
    encoder = wire3.AddEncoder(7, b"K" * 20, recovery=False, deferred=False)
    part = "0807" + "1001" + "1a14" + "4b" * 20 + "2204" + "424f4459"
    message = "0a06" + "080310021801" + "aa0620" + part
    assert joined(encoder, 1, b"BODY") == f"{len(message) // 2:08x}" + message


def test_flags_of_adds() -> None:
    recovery = wire3.AddEncoder(7, b"K" * 20, recovery=True, deferred=False)
    assert joined(recovery, 1, b"BODY").endswith("424f4459" + "a00601")
    assert "0a08" + "080310021801" + "2064" in joined(recovery, 1, b"BODY")
    deferred = wire3.AddEncoder(7, b"K" * 20, recovery=False, deferred=True)
    assert joined(deferred, 1, b"BODY").endswith("424f4459" + "2801")


def test_requests_of_the_third_protocol() -> None:
    assert wire3.info(1).hex() == "0000000d" + "0a06080310081801" + "ca06020803"
    assert wire3.start_tls(1)[4:].hex() == "0a06080310091801" + "d20600"
    fence = wire3.read(1, 7, -1, fence_key=b"K")
    assert fence[4:].hex() == (
        "0a06080310011801" + "a20613" + "0807" + "10ffffffffffffffffff01" + "1a014b" + "a00601"
    )


def test_the_answer_to_an_add() -> None:
    answer = bytes.fromhex("0a06080310021801" + "1000" + "aa0606" + "080010071801")
    assert wire3.read_added(answer) == (1, 0)
    whole = wire3.read_answer(answer)
    assert (whole.operation, whole.transaction, whole.status) == (Operation.ADD, 1, 0)
    refused = bytes.fromhex("0a06080310021801" + "10f803" + "aa0607" + "08f80310071801")
    assert wire3.read_added(refused) == (1, Status.FENCED)
    assert wire3.read_answer(refused).status == Status.FENCED


@given(st.integers(0, 2**63 - 1), st.integers(0, 600))
def test_a_short_look_at_an_answer_sees_what_a_long_one_does(transaction: int, status: int) -> None:
    header = encode([(1, 3), (2, Operation.ADD), (3, transaction)])
    part = encode([(1, status), (2, 7), (3, -1)])
    answer = encode([(1, header), (2, status), (101, part)])
    long = wire3.read_answer(answer)
    assert wire3.read_added(answer) == (long.transaction, long.status)


@given(st.binary(max_size=60))
def test_no_bytes_of_a_bookie_raise_anything_else(data: bytes) -> None:
    for read in (wire3.read_answer, wire2.read_answer, wire3.read_availability):
        with suppress(MalformedError):
            read(data)
    wire3.read_added(data)


@given(
    st.sampled_from(Operation),
    st.integers(0, 2**40),
    st.integers(0, 600),
    st.one_of(st.none(), st.tuples(st.integers(0, 600), st.integers(-1, 2**62), st.binary())),
)
def test_the_order_of_fields_makes_no_difference(
    operation: Operation, transaction: int, status: int, held: tuple[int, int, bytes] | None
) -> None:
    header = encode([(1, 3), (2, operation), (3, transaction)])
    part = None if held is None else encode([(1, held[0]), (3, held[1]), (4, held[2])])
    fields: list[Field] = [(1, header), (2, status), (wire3.PART[operation], part)]
    for data in (encode(fields), encode(fields[::-1]), encode([*fields, (90, 1)])):
        found = wire3.read_answer(data)
        inner = held is not None and operation in wire3.WITH_STATUS
        assert found[:3] == (operation, transaction, (inner and held and held[0]) or status)
        assert found.part.number(3, -7) == (-7 if held is None else held[1])
        assert found.part.data(4, b"none") == (b"none" if held is None else held[2])


@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.one_of(st.integers(-1, 2**40), st.binary(max_size=200))),
        max_size=6,
    ),
    st.booleans(),
    st.integers(0, 4),
)
def test_an_entry_read_quickly_is_the_one_read_by_fields(
    fields: list[tuple[int, int | bytes]], in_order: bool, cut: int
) -> None:
    if in_order:
        kinds = {1: int, 2: int, 3: int, 4: bytes, 5: int}
        kept = {key: value for key, value in fields if isinstance(value, kinds.get(key, str))}
        fields = sorted({1: 0, 2: 7, 3: 5, **kept}.items())
    part = encode(fields)
    part = part[: len(part) - cut]
    quick = wire3._read_entry(b"before" + part, len(b"before"))
    if quick is not None:
        assert quick._fields == Message(part)._fields
    assert quick is not None or not in_order or cut


@given(st.integers(0, 2**40), st.integers(0, 2**62), st.integers(-1, 2**62))
def test_reads_in_bulk_are_requests_like_others(transaction: int, ledger: int, entry: int) -> None:
    assert wire3.ReadEncoder(ledger).encode(transaction, entry) == wire3.read(
        transaction, ledger, entry
    )


def test_an_answer_to_another_operation_is_not_taken_for_an_added_entry() -> None:
    header = encode([(1, 3), (2, Operation.READ), (3, 5)])
    assert wire3.read_added(encode([(1, header), (2, 0)])) is None
    assert wire3.read_added(b"") is None


def test_a_part_has_the_status_that_counts() -> None:
    header = encode([(1, 3), (2, Operation.READ), (3, 5)])
    part = encode([(1, Status.NO_ENTRY), (2, 7), (3, 1)])
    assert wire3.read_answer(encode([(1, header), (2, 0), (100, part)])).status == Status.NO_ENTRY
    refused = wire3.read_answer(encode([(1, header), (2, Status.UNAUTHORIZED)]))
    assert refused.status == Status.UNAUTHORIZED
    assert not refused.part.has(1)


def group(first: int, last: int, size: int, period: int) -> bytes:
    numbers = ((first, 8), (last, 8), (size, 4), (period, 4))
    return b"".join(each.to_bytes(width, "big") for each, width in numbers)


def listed(*groups: bytes) -> bytes:
    return bytes(4) + len(groups).to_bytes(4, "big") + bytes(56) + b"".join(groups)


def test_a_list_of_entries() -> None:
    data = listed(group(0, 0, 3, 0), group(5, 11, 2, 3), group(20, 20, 1, 0))
    assert wire3.read_availability(data) == [(0, 2), (5, 6), (8, 9), (11, 12), (20, 20)]
    with pytest.raises(MalformedError):
        wire3.read_availability(data[:-1])
    with pytest.raises(MalformedError):
        wire3.read_availability(listed(group(5, 5, 2, 0), group(6, 6, 1, 0)))


def test_a_list_of_entries_has_a_bound_for_all_groups_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire3, "RANGES_MAX", 8)
    most = listed(group(0, 9, 2, 3), group(20, 29, 2, 3))
    assert len(wire3.read_availability(most)) == 8
    for more in (
        listed(group(0, 12, 2, 3), group(20, 29, 2, 3)),
        listed(group(0, 8, 1, 1)),  # one range in the end, and nine steps to it
        listed(*(group(2 * each, 2 * each, 1, 0) for each in range(9))),
    ):
        with pytest.raises(MalformedError, match="more than 8 ranges"):
            wire3.read_availability(more)


@pytest.mark.parametrize("period", [1, 2])
def test_a_list_of_more_entries_than_memory_holds_is_malformed(period: int) -> None:
    with pytest.raises(MalformedError):
        wire3.read_availability(listed(group(0, 2**62, 1, period)))


def test_requests_of_the_second_protocol() -> None:
    assert wire2.add(KEY, FRAME).hex() == "00000041" + "02010000" + KEY.hex() + FRAME.hex()
    assert wire2.add(KEY, FRAME, recovery=True)[4:8].hex() == "02010006"
    assert wire2.read(7, 1).hex() == "00000014" + "02020000" + q(7) + q(1)
    fence = "00000028" + "02020001" + q(7) + "ffffffffffffffff" + KEY.hex()
    assert wire2.read(7, -1, KEY).hex() == fence


def test_answers_of_the_second_protocol() -> None:
    added = bytes.fromhex("02010000" + "00000000" + q(7) + q(1))
    found = wire2.read_answer(added)
    assert found[:5] == (wire2.Opcode.ADD, Status.OK, 7, 1, 0)
    assert len(added) + 4 == wire2.ADDED.size == 28
    batch = bytes.fromhex("02070000" + "00000002" + q(7) + q(1) + q(9))
    found = wire2.read_answer(batch)
    assert found[:5] == (wire2.Opcode.BATCH_READ, Status.NO_ENTRY, 7, 1, 9)


def test_only_two_statuses_deny_an_entry() -> None:
    for status in [*Status, 1, 499, 508, -1]:
        denies = isinstance(error_of(status, "b", 7, 1), NotFoundError)
        assert denies == (status in (Status.NO_ENTRY, Status.NO_LEDGER)), status
    assert isinstance(error_of(508, "b", 7, 1), BookieUnavailableError)
    assert set(CODES.values()) == set(Status)


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(-(2**63), 2**63 - 1) | st.binary())))
def test_fields_are_read_as_they_were_written(fields: list[tuple[int, int | bytes]]) -> None:
    message = Message(encode(fields))
    for key, value in dict(fields).items():
        found = message.number(key) if isinstance(value, int) else message.data(key)
        assert found == value
