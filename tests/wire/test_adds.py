"""The hand-made request is the one that protobuf would have made."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from quire.entry import BookieId
from quire.wire import bookie_pb2 as pb
from quire.wire.adds import (
    APART_BYTES_MIN,
    METHOD,
    RUNS_PER_MESSAGE_MAX,
    EncodedRun,
    count_runs,
    decode_request,
    encode_lac,
    encode_request,
    encode_run,
)
from quire.wire.reads import NoMessageError
from quire.wire.varint import read_varint

runs = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        st.binary(max_size=24),
        st.one_of(st.binary(max_size=300), st.integers(0, 2 * APART_BYTES_MIN).map(bytes)),
        st.booleans(),
        st.booleans(),
    ),
    max_size=4,
)


def whole(first: int, bookie: BookieId | None, encoded: list[EncodedRun]) -> bytes:
    return b"".join(encode_request(first, bookie, encoded))


@given(runs, st.integers(0, 2**64 - 1), st.one_of(st.none(), st.text(max_size=40)))
def test_protobuf_reads_what_was_meant(
    given: list[tuple[int, bytes, bytes, bool, bool]], first: int, bookie: str | None
) -> None:
    encoded = [
        encode_run(ledger, key, run, recovery=recovery, deferred=deferred)
        for ledger, key, run, recovery, deferred in given
    ]
    expected = pb.AddRequest(first=first, bookie=bookie)
    for ledger, key, run, recovery, deferred in given:
        expected.runs.add(ledger=ledger, key=key, run=run, recovery=recovery, deferred=deferred)
    assert pb.AddRequest.FromString(whole(first, bookie, encoded)) == expected


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=24), st.binary(max_size=300))
def test_a_lac_takes_the_place_of_a_run(ledger: int, key: bytes, packet: bytes) -> None:
    encoded = [encode_lac(ledger, key, packet), encode_run(ledger, key, b"run")]
    expected = pb.AddRequest(first=1)
    expected.runs.add(ledger=ledger, key=key, lac_packet=packet)
    expected.runs.add(ledger=ledger, key=key, run=b"run")
    assert pb.AddRequest.FromString(whole(1, None, encoded)) == expected


def test_what_it_takes_in_a_message_is_known() -> None:
    for encoded in (encode_lac(7, b"k" * 20, b"p" * 90), encode_run(7, b"k" * 20, b"r" * 900)):
        rest = len(whole(1, None, [encoded])) - len(whole(1, None, []))
        assert 0 <= rest - encoded.size <= 4  # its tag and its size


def test_a_large_run_is_a_part_as_it_is_and_small_ones_share_theirs() -> None:
    small, large = bytes(APART_BYTES_MIN - 1), bytes(APART_BYTES_MIN)
    encoded = [encode_run(7, b"k", run) for run in (small, small, large, small, large)]
    parts = encode_request(1, None, encoded)
    assert [part is large for part in parts] == [False, True, False, True]
    assert len(encode_request(1, None, encoded[:2])) == 1


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="out of range"):
        encode_run(2**63, b"", b"")
    with pytest.raises(ValueError, match="out of range"):
        encode_lac(2**63, b"", b"")


def test_the_method_is_the_one_of_the_service() -> None:
    assert METHOD == "/quire.v1.Bookie/Add"


@given(runs, st.binary(max_size=30))
def test_runs_are_counted_without_decoding(
    given: list[tuple[int, bytes, bytes, bool, bool]], unknown: bytes
) -> None:
    encoded = [encode_run(ledger, key, run) for ledger, key, run, *_ in given]
    later = pb.AddRequest(bookie=unknown.hex()).SerializeToString()
    message = whole(2**64 - 1, "b1", encoded) + later
    assert count_runs(message, 100) == len(given)
    assert count_runs(message, 1) == min(len(given), 2)


@given(st.binary(max_size=200))
def test_any_bytes_can_be_counted(message: bytes) -> None:
    assert 0 <= count_runs(message, 3) <= 4


@given(st.integers(0, 200), st.integers(0, 3))
def test_small_runs_behind_large_ones_are_counted(large: int, few: int) -> None:
    """However many fields come first: the rest is counted, and one run too many is refused."""
    before = whole(1, "b1", [encode_run(7, b"", bytes(1024))] * large)
    small = b"\x1a\x00" * (RUNS_PER_MESSAGE_MAX - large - few)
    assert len(decode_request(before + small).runs) == RUNS_PER_MESSAGE_MAX - few
    with pytest.raises(NoMessageError, match="more than 32768 runs"):
        decode_request(before + small + b"\x1a\x00" * (few + 1))


@pytest.mark.parametrize("tag", [b"\x1a", b"\x9a\x00", b"\x9a\x80\x80\x00"])
def test_a_message_of_too_many_runs_is_not_decoded(
    tag: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if its tags take more bytes than they need, which decoders accept."""

    class Decoder:
        @staticmethod
        def FromString(_: bytes) -> None:  # noqa: N802
            raise AssertionError("it is decoded")

    run = tag + b"\x00"
    message = run * (RUNS_PER_MESSAGE_MAX + 1)
    assert len(decode_request(message[len(run) :]).runs) == RUNS_PER_MESSAGE_MAX
    monkeypatch.setattr("quire.wire.adds.pb.AddRequest", Decoder)
    with pytest.raises(NoMessageError, match="more than 32768 runs"):
        decode_request(message)


def test_a_length_of_64_bits_is_refused_as_any_that_is_too_long() -> None:
    length = b"\xff" * 9 + b"\x01"
    message = b"\x1a" + length + bytes(2 * RUNS_PER_MESSAGE_MAX)
    with pytest.raises(NoMessageError) as refused:
        decode_request(message)
    assert isinstance(refused.value.__cause__, DecodeError)
    with pytest.raises(IndexError):
        read_varint(b"\x01", 1 << 64)
