"""The bookie's end of both protocols, against the client's end and against golden bytes."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.bookkeeper import wire2, wire3
from quire.bookkeeper.protobuf import Field, MalformedError, encode
from quire.bookkeeper.serving import codec2, codec3
from quire.bookkeeper.serving.codec import encode_reply, read_request
from quire.bookkeeper.serving.request import SECOND, THIRD, ClientRequest, Reply, RequestKind
from quire.bookkeeper.status import Status
from quire.bookkeeper.wire3 import Operation
from quire.entry import DigestKind, Sealer

SEALER = Sealer(7, DigestKind.CRC32C, b"")
FRAME = SEALER.seal(1, 0, 5, b"hello")
KEY = SEALER.access_key
IDS = st.integers(0, 2**63 - 1)
ENTRIES = st.integers(-1, 2**63 - 1)
STATUSES = st.sampled_from(Status)
SIZE = wire3.SIZE.size


def third(kind: RequestKind, operation: int, ledger: int = 7, entry: int = 1) -> ClientRequest:
    return ClientRequest(THIRD, operation, 1, kind, ledger, entry)


def test_golden_answers_of_the_third_protocol() -> None:
    added = encode_reply(third(RequestKind.ADD, Operation.ADD), Reply(Status.OK))
    assert added.hex() == "0a06080310021801" + "1000" + "aa0606" + "080010071801"
    fenced = encode_reply(third(RequestKind.ADD, Operation.ADD), Reply(Status.FENCED))
    assert fenced.hex() == "0a06080310021801" + "10f803" + "aa0607" + "08f80310071801"
    last = third(RequestKind.READ, Operation.READ, entry=-1)
    assert encode_reply(last, Reply(Status.NO_ENTRY)).hex() == (
        "0a06080310011801" + "109303" + "a20610" + "089303" + "1007" + "18ffffffffffffffffff01"
    )
    auth = encode_reply(third(RequestKind.AUTH, Operation.AUTH), Reply(Status.OK))
    assert auth.hex() == (
        "0a06080310051801" + "1000" + "b20616" + "0a12" + b"AuthDisabledPlugin".hex() + "1200"
    )
    unknown = encode_reply(third(RequestKind.UNKNOWN, 12), Reply(Status.BAD_REQUEST))
    assert unknown.hex() == "0a060803100c1801" + "109403"


def test_golden_answers_of_the_second_protocol() -> None:
    added = encode_reply(ClientRequest(SECOND, 1, 0, RequestKind.ADD, 7, 1), Reply(Status.OK))
    assert added.hex() == "02010000" + "00000000" + f"{7:016x}" + f"{1:016x}"
    read = encode_reply(
        ClientRequest(SECOND, 2, 0, RequestKind.READ, 7, -1), Reply(Status.OK, body=FRAME)
    )
    assert read.hex() == "02020000" + "00000000" + f"{7:016x}" + "f" * 16 + FRAME.hex()
    batch = encode_reply(
        ClientRequest(SECOND, 7, 9, RequestKind.BATCH_READ, 7, 1), Reply(Status.NO_ENTRY)
    )
    assert batch.hex() == "02070000" + "00000002" + f"{7:016x}" + f"{1:016x}" + f"{9:016x}"


@given(st.integers(0, 2**63 - 1), IDS, IDS, st.binary(), st.binary(max_size=99), st.booleans())
def test_adds_of_the_third_protocol(
    transaction: int, ledger: int, entry: int, key: bytes, body: bytes, recovery: bool
) -> None:
    encoder = wire3.AddEncoder(ledger, key, recovery=recovery, deferred=not recovery)
    message = b"".join(encoder.encode(transaction, [(entry, body)]))[SIZE:]
    assert read_request(message) == ClientRequest(
        *(THIRD, Operation.ADD, transaction, RequestKind.ADD, ledger, entry, key, body),
        recovery=recovery,
        deferred=not recovery,
    )


@given(IDS, IDS, ENTRIES, st.one_of(st.none(), st.binary(max_size=30)))
def test_reads_of_the_third_protocol(
    transaction: int, ledger: int, entry: int, key: bytes | None
) -> None:
    message = wire3.read(transaction, ledger, entry, fence_key=key)[SIZE:]
    assert read_request(message) == ClientRequest(
        *(THIRD, Operation.READ, transaction, RequestKind.READ, ledger, entry, key),
        fences=key is not None,
    )


@given(IDS, IDS, ENTRIES, st.integers(0, 2**31))
def test_polls(transaction: int, ledger: int, above: int, milliseconds: int) -> None:
    found = read_request(wire3.poll(transaction, ledger, above, milliseconds)[SIZE:])
    assert (found.kind, found.ledger, found.entry) == (RequestKind.WAIT, ledger, -1)
    assert (found.above, found.milliseconds) == (above, milliseconds)


def test_other_requests_of_the_third_protocol() -> None:
    packet = SEALER.seal_lac(3)
    lac = read_request(wire3.write_lac(5, 7, 3, KEY, packet)[SIZE:])
    assert lac == ClientRequest(
        THIRD, Operation.WRITE_LAC, 5, RequestKind.WRITE_LAC, 7, 3, KEY, packet
    )
    for operation, kind in (
        (Operation.READ_LAC, RequestKind.READ_LAC),
        (Operation.FORCE, RequestKind.FORCE),
        (Operation.LIST_ENTRIES, RequestKind.LIST_ENTRIES),
    ):
        found = read_request(wire3.of_ledger(operation, 5, 7)[SIZE:])
        assert found == ClientRequest(THIRD, operation, 5, kind, 7)
    assert read_request(wire3.info(5)[SIZE:]).entries == 3
    assert read_request(wire3.start_tls(5)[SIZE:]).kind is RequestKind.START_TLS
    assert read_request(wire3.authenticate(5, "p", b"")[SIZE:]).kind is RequestKind.AUTH


@pytest.mark.parametrize("number", [0, 3, 4, 12, 99])
def test_an_operation_that_is_not_known_can_be_answered(number: int) -> None:
    header = encode([(1, 3), (2, number), (3, 5)])
    found = read_request(encode([(1, header), (100, b"")]))
    assert (found.kind, found.operation, found.transaction) == (RequestKind.UNKNOWN, number, 5)
    answer = encode_reply(found, Reply(Status.BAD_REQUEST))
    assert answer == encode([(1, header), (2, Status.BAD_REQUEST)])


def test_a_part_that_is_missing_or_damaged_can_be_answered() -> None:
    for number in Operation:
        header = encode([(1, 3), (2, number), (3, 5)])
        damaged: list[Field] = [(1, header), (wire3.PART[number], b"\xff")]
        for data in (encode([(1, header)]), encode(damaged)):
            assert read_request(data).kind is RequestKind.UNKNOWN


@given(IDS, ENTRIES, STATUSES, st.binary(max_size=50), st.one_of(st.none(), ENTRIES))
def test_answers_are_what_the_client_reads(
    ledger: int, entry: int, status: Status, body: bytes, lac: int | None
) -> None:
    for kind, operation in ((RequestKind.READ, Operation.READ), (RequestKind.WAIT, Operation.READ)):
        request = third(kind, operation, ledger, entry)
        found = wire3.read_answer(encode_reply(request, Reply(status, body=body, lac=lac)))
        assert found[:3] == (operation, 1, status)
        assert (found.part.number(2), found.part.number(3)) == (ledger, entry)
        assert found.part.data(4, b"") == body
        assert found.part.number(5, -9) == (-9 if lac is None else lac)
    added = encode_reply(third(RequestKind.ADD, Operation.ADD, ledger, entry), Reply(status))
    assert wire3.read_added(added) == (1, status)
    second = ClientRequest(SECOND, wire2.Opcode.READ, 0, RequestKind.READ, ledger, entry)
    answer = wire2.read_answer(encode_reply(second, Reply(status, body=body)))
    assert (answer.status, answer.ledger, answer.entry, bytes(answer.body)) == (
        *(status, ledger, entry, body),
    )


def test_requests_of_the_second_protocol() -> None:
    for recovery in (False, True):
        found = read_request(wire2.add(KEY, FRAME, recovery=recovery)[SIZE:])
        assert found == ClientRequest(
            SECOND, 1, 0, RequestKind.ADD, 7, 1, KEY, FRAME, recovery=recovery
        )
    assert read_request(wire2.read(7, -1)[SIZE:]) == ClientRequest(
        SECOND, 2, 0, RequestKind.READ, 7, -1
    )
    fence = read_request(wire2.read(7, 3, KEY)[SIZE:])
    assert fence == ClientRequest(SECOND, 2, 0, RequestKind.READ, 7, 3, KEY, fences=True)
    batch = read_request(wire2.batch_read(9, 7, 1, 100, 5000)[SIZE:])
    assert batch == ClientRequest(
        *(SECOND, 7, 9, RequestKind.BATCH_READ, 7, 1), entries=100, bytes_max=5000
    )
    assert read_request(bytes.fromhex("02630000")).kind is RequestKind.UNKNOWN


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), max_size=40))
def test_lists_of_entries_are_what_the_client_reads(steps: list[tuple[int, int]]) -> None:
    ranges, at = [], 0
    for gap, size in steps:
        ranges.append((at, at + size))
        at += size + 1 + gap
    assert wire3.read_availability(codec3.encode_availability(ranges)) == ranges


def test_the_list_of_a_striped_ledger_is_one_group() -> None:
    ranges = [(first, first + 1) for first in range(0, 30_000, 3)]
    data = codec3.encode_availability(ranges)
    assert len(data) == wire3.AVAILABILITY_HEADER + 24
    assert wire3.read_availability(data) == ranges


@given(st.one_of(st.binary(max_size=80), st.binary(max_size=80).map(lambda each: b"\2" + each)))
def test_no_bytes_of_a_client_raise_anything_else(data: bytes) -> None:
    for read in (read_request, codec2.read_request, codec3.read_request):
        with suppress(MalformedError):
            encode_reply(read(data), Reply(Status.BAD_REQUEST))


@given(st.data())
def test_a_request_with_damaged_bytes_raises_nothing_else(data: st.DataObject) -> None:
    encoder = wire3.AddEncoder(7, KEY, recovery=True, deferred=True)
    message = data.draw(
        st.sampled_from(
            [
                b"".join(encoder.encode(1, [(1, FRAME)])),
                wire3.poll(1, 7, -1, 1000),
                wire3.read(1, 7, 1, fence_key=KEY),
                wire2.add(KEY, FRAME),
                wire2.batch_read(9, 7, 1, 100, 5000),
            ]
        )
    )[SIZE:]
    at = data.draw(st.integers(0, len(message) - 1))
    damaged = bytearray(message)
    damaged[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(message)))
    for each in (bytes(damaged), message[:cut]):
        with suppress(MalformedError):
            encode_reply(read_request(each), Reply(Status.BAD_REQUEST))


def test_a_request_of_very_many_values_is_refused_before_they_are_read() -> None:
    """A stranger sends millions of them in one message, and all others wait meanwhile."""
    many = b"\x78\x00" * codec3.VALUES_MAX
    assert read_request(wire3.read(1, 7, 1)[SIZE:] + many[:-8]).kind is RequestKind.READ
    with pytest.raises(MalformedError, match="more than 1000 values"):
        read_request(wire3.read(1, 7, 1)[SIZE:] + many)
    with pytest.raises(MalformedError, match="more than 1000 values"):
        read_request(encode([(1, many + b"\x78\x00")]))
