from __future__ import annotations

import inspect
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import quire.bookie
from quire import errors
from quire.bookie import BookieInfo, LedgerTail, LedgerUse, LedgerUses, UseKind
from quire.errors import (
    BookieUnavailableError,
    CorruptStorageError,
    EntryTooLargeError,
    InvalidRequestError,
    LedgerFencedError,
    LedgerRetiredError,
    NoSuchLedgerError,
    QuireError,
)
from quire.storage.serving.uses import TOLD_MAX
from quire.wire import bookie_pb2 as pb
from quire.wire.codec import (
    RANGES_MAX,
    REASON_CHARACTERS_MAX,
    RULES,
    Rule,
    decode_failure,
    decode_info,
    decode_ranges,
    decode_tail,
    encode_failure,
    encode_info,
    encode_ranges,
    encode_tail,
    is_internal,
)
from quire.wire.transport import MESSAGE_BYTES_MAX

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=REASON_CHARACTERS_MAX)


def travel(failure: pb.Failure) -> pb.Failure:
    return pb.Failure.FromString(failure.SerializeToString())


def errors_of_the_port() -> list[type[QuireError]]:
    """Every error the documents of quire/bookie.py say a bookie may raise."""
    names = sorted(set(re.findall(r"`(\w+Error)`", inspect.getsource(quire.bookie))))
    return [getattr(errors, name) for name in names]


@pytest.mark.parametrize("error", errors_of_the_port())
def test_every_error_of_the_port_has_a_rule(error: type[QuireError]) -> None:
    assert error in [rule.error for rule in RULES]


def test_every_status_means_one_error_unless_a_mark_tells_another() -> None:
    statuses = [rule.status for rule in RULES if not rule.mark]
    assert sorted([*statuses, pb.STATUS_UNSPECIFIED, pb.INTERNAL]) == sorted(pb.Status.values())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.error.__name__)
@given(data=st.data())
def test_errors_travel_with_all_they_carry(rule: Rule, data: st.DataObject) -> None:
    types = {"ledger": INT64, "entry": INT64, "through": INT64}
    arguments = [data.draw(types.get(name, TEXT), label=name) for name, _ in rule.fields]
    error = rule.error(*arguments)
    arrived = decode_failure(travel(encode_failure(error, "b1")))
    assert type(arrived) is rule.error
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


def test_a_program_that_does_not_know_a_mark_raises_the_older_error() -> None:
    failure = travel(encode_failure(LedgerRetiredError(7), "b1"))
    assert (failure.status, failure.subject) == (pb.NO_SUCH_LEDGER, "retired")
    failure.subject = "a mark of the future"
    assert type(decode_failure(failure)) is NoSuchLedgerError


def test_an_error_without_a_rule_travels_as_its_ancestor() -> None:
    arrived = decode_failure(encode_failure(EntryTooLargeError(5, 4), "b1"))
    assert type(arrived) is InvalidRequestError
    assert str(arrived) == str(EntryTooLargeError(5, 4))


@pytest.mark.parametrize("error", [RuntimeError("secret"), OSError(5, "secret"), QuireError("s")])
def test_defects_keep_their_details_to_themselves(error: Exception) -> None:
    failure = encode_failure(error, "b1")
    assert is_internal(failure)
    assert "secret" not in str(failure)
    arrived = decode_failure(travel(failure))
    assert isinstance(arrived, BookieUnavailableError)
    assert arrived.bookie == "b1"


def test_a_status_from_the_future_is_an_unavailable_bookie() -> None:
    failure = pb.Failure.FromString(b"\x08\x63\x22\x02b1")
    assert isinstance(decode_failure(failure), BookieUnavailableError)


def test_names_that_are_no_text_travel_in_escapes() -> None:
    path = os.fsdecode(b"/data/caf\xe9/journal")
    arrived = decode_failure(travel(encode_failure(CorruptStorageError(path, path), "b1")))
    assert str(arrived).count(r"/data/caf\udce9/journal") == 2


def test_long_reasons_are_cut() -> None:
    failure = encode_failure(BookieUnavailableError("b1", "x" * 10_000_000), "b1")
    assert len(failure.reason) == REASON_CHARACTERS_MAX


@given(
    frame=st.none() | st.binary(),
    packet=st.none() | st.binary(),
    hint=INT64,
    fenced=st.booleans(),
)
def test_tails_travel(frame: bytes | None, packet: bytes | None, hint: int, fenced: bool) -> None:
    tail = LedgerTail(frame, packet, hint, fenced)
    assert decode_tail(pb.TailReply.FromString(encode_tail(tail).SerializeToString())) == tail


@given(st.lists(st.tuples(INT64, INT64)))
def test_ranges_travel(ranges: list[tuple[int, int]]) -> None:
    reply = encode_ranges(ranges)
    assert decode_ranges(pb.ListEntriesReply.FromString(reply.SerializeToString())) == ranges


def test_the_longest_piece_of_a_list_fits_into_a_message() -> None:
    ids = range(2**63 - 2 * RANGES_MAX, 2**63)
    reply = encode_ranges([(entry, entry) for entry in ids[::2]])
    assert len(reply.bounds) == 2 * RANGES_MAX
    assert reply.ByteSize() < MESSAGE_BYTES_MAX


def test_accounts_travel() -> None:
    info = BookieInfo("b1", False, 2**50, 2**51, 3, counters={"a_b": 2**40, "c": 0})
    assert decode_info(pb.InfoReply.FromString(encode_info(info).SerializeToString())) == info


def test_uses_travel_and_unknown_kinds_are_left_out() -> None:
    uses = tuple(LedgerUse(7, kind, "10.0.0.1:4711", 2.5) for kind in UseKind)
    info = BookieInfo("b1", True, 1, 2, 3, in_use=LedgerUses(uses, 9))
    message = encode_info(info)
    assert decode_info(pb.InfoReply.FromString(message.SerializeToString())) == info
    message.uses[0].kind = "borrows"
    assert decode_info(message).in_use == LedgerUses(uses[1:], 9)


def test_the_uses_of_a_bookie_fit_into_a_message() -> None:
    peer = "spiffe://" + "x" * 1024 + " at [::1]:65535"
    uses = (LedgerUse(2**62, UseKind.RECOVERS, peer, 300.0),) * TOLD_MAX
    info = BookieInfo("b1", True, 1, 2, 3, in_use=LedgerUses(uses))
    assert encode_info(info).ByteSize() < MESSAGE_BYTES_MAX


def test_replies_raise_what_the_bookie_raised() -> None:
    failure = encode_failure(LedgerFencedError(4), "b1")
    with pytest.raises(LedgerFencedError):
        decode_tail(pb.TailReply(failure=failure))
    with pytest.raises(LedgerFencedError):
        decode_ranges(pb.ListEntriesReply(failure=failure))
    with pytest.raises(LedgerFencedError):
        decode_info(pb.InfoReply(failure=failure))
