"""The messages of reads in plain frames: what is meant comes back, and nothing else is taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import NoSuchEntryError
from quire.wire import bookie_pb2 as pb
from quire.wire.codec import encode_failure
from quire.wire.framed_reads import (
    QUESTION_BYTES_MAX,
    REFUSAL,
    Question,
    decode_answer,
    decode_question,
    encode_answer,
    encode_failed,
    encode_give_up,
    encode_question,
)
from quire.wire.reads import PART_BYTES_MAX, NoMessageError

NUMBERS = st.integers(1, 2**63 - 1)
ASKED = pb.ReadRequest(bookie="b1", ledger=7, first=3, last=9, bytes_max=1000)


@given(NUMBERS, st.sampled_from(["", "a-1", "x" * 64]))
def test_a_question_comes_back(number: int, request_id: str) -> None:
    message = b"".join(encode_question(number, request_id, ASKED.SerializeToString()))
    assert decode_question(message) == Question(number, request_id, ASKED)


@given(NUMBERS)
def test_so_does_a_give_up(number: int) -> None:
    assert decode_question(encode_give_up(number)) == Question(number, "", None)


def test_an_id_that_would_spoil_a_log_is_none() -> None:
    message = b"".join(encode_question(1, "a\nb", ASKED.SerializeToString()))
    assert decode_question(message).request_id == ""


@given(NUMBERS, st.binary(min_size=1, max_size=300))
def test_an_answer_comes_back(number: int, run: bytes) -> None:
    (pieces,) = encode_answer(number, run)
    assert decode_answer(b"".join(pieces)) == (number, (len(run), run))


def test_a_large_run_is_not_copied_on_its_way() -> None:
    run = bytes(range(256)) * (PART_BYTES_MAX // 100)
    messages = list(encode_answer(1, run))
    assert len(messages) == 3
    assert all(memoryview(pieces[-1]).obj is run for pieces in messages)
    parts = [decode_answer(b"".join(pieces)).part for pieces in messages]
    assert {part.size for part in parts} == {len(run)}
    assert b"".join(part.data for part in parts) == run


def test_a_failure_is_raised() -> None:
    failure = encode_failure(NoSuchEntryError(7, 3), "b1")
    with pytest.raises(NoSuchEntryError):
        decode_answer(b"".join(encode_failed(REFUSAL, failure)))


@given(st.binary(max_size=60))
def test_other_bytes_are_no_message_or_a_message_that_is_whole(message: bytes) -> None:
    try:
        number, request_id, request = decode_question(message)
    except NoMessageError:
        return
    if request is not None:
        again = b"".join(encode_question(number, request_id, request.SerializeToString()))
        assert decode_question(again) == (number, request_id, request)


@pytest.mark.parametrize(
    "message",
    [b"", b"\x80", b"\xff" * 11, b"\x01\x05ab", b"\x01\x00\xff", bytes(QUESTION_BYTES_MAX + 1)],
)
def test_bytes_that_are_no_question(message: bytes) -> None:
    with pytest.raises(NoMessageError):
        decode_question(message)


@pytest.mark.parametrize("message", [b"", b"\x80", b"\xff" * 11, b"\x01\x08", b"\x01\xff"])
def test_bytes_that_are_no_answer(message: bytes) -> None:
    with pytest.raises(NoMessageError):
        decode_answer(message)
