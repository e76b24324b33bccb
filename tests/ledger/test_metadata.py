"""Ledger metadata: the transition table, what makes a value impossible, and the record's bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.entry import DigestKind, key_check
from quire.errors import (
    CorruptRecordError,
    InvalidRequestError,
    LedgerClosedError,
)
from quire.labels import Labels
from quire.ledger.domains import ANYWHERE, Placement
from quire.ledger.metadata import (
    TRANSITIONS,
    Fragment,
    LedgerMetadata,
    LedgerState,
    Replica,
)
from quire.ledger.quorum import Replication
from quire.metastore.record import decode_record, encode_record

PATH = "/quire/ledgers/0/7"


def opened(**changes: Any) -> LedgerMetadata:
    fields: dict[str, Any] = {
        "ledger": 7,
        "replication": Replication(3, 2, 2),
        "digest": DigestKind.CRC32C,
        "key_check": key_check(b"k" * 20),
        "fragments": (Fragment(0, ("a", "b", "c")),),
    }
    return LedgerMetadata(**{**fields, **changes})


PLACES = (Labels(zone="a"), Labels(zone="b"), Labels(zone="c"))
ZONES = Placement.parse("durable=zone:2")


def test_labels_are_frozen_where_acks_count_domains_and_nowhere_else() -> None:
    placed = opened(fragments=(Fragment(0, ("a", "b", "c"), PLACES),), placement=ZONES)
    assert LedgerMetadata.decode(PATH, placed.encode()) == placed
    for fragment, placement in (
        (placed.last_fragment, ANYWHERE),
        (Fragment(0, ("a", "b", "c")), ZONES),
    ):
        with pytest.raises(InvalidRequestError, match="has labels of"):
            opened(fragments=(fragment,), placement=placement)


def test_labels_stand_beside_fields_of_a_later_program() -> None:
    placed = opened(fragments=(Fragment(0, ("a", "b", "c"), PLACES),), placement=ZONES)
    _, body = decode_record(PATH, "ledger", placed.encode())
    body["fragments"][0][2]["later"] = [1]
    found = LedgerMetadata.decode(PATH, encode_record("ledger", 1, body))
    assert found == placed
    _, kept = decode_record(PATH, "ledger", found.encode())
    assert kept["fragments"][0][2] == body["fragments"][0][2]
    body["fragments"][0][2]["labels"][0] = "shelf=7"
    with pytest.raises(CorruptRecordError, match="shelf=7"):
        LedgerMetadata.decode(PATH, encode_record("ledger", 1, body))


def test_a_copy_that_moves_takes_its_label_along() -> None:
    ends = (Fragment(0, ("a", "b", "c"), PLACES), Fragment(5, ("a", "b", "c"), PLACES))
    moved = opened(fragments=ends, placement=ZONES).with_replicas(
        [Replica(0, 1, "b", "d", Labels(zone="d"))]
    )
    assert moved.fragments[0].labels == (PLACES[0], Labels(zone="d"), PLACES[2])
    assert moved.fragments[1].labels == PLACES


@st.composite
def metadatas(draw: st.DrawFn) -> LedgerMetadata:
    write = draw(st.integers(1, 4))
    replication = Replication(4, write, draw(st.integers(1, write)))
    firsts = [0, *sorted(draw(st.sets(st.integers(1, 1000), max_size=4)))]
    ensembles = st.permutations("abcdef").map(lambda names: tuple(names[:4]))
    value = LedgerMetadata(
        ledger=draw(st.integers(0, 2**63 - 1)),
        replication=replication,
        digest=draw(st.sampled_from(DigestKind)),
        key_check=key_check(draw(st.binary(max_size=20))),
        fragments=tuple(Fragment(first, draw(ensembles)) for first in firsts),
        custom_metadata=draw(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)),
        created_ms=draw(st.integers(0, 2**50)),
        token=draw(st.text("0123456789abcdef", max_size=8)),
    )
    match draw(st.sampled_from(LedgerState)):
        case LedgerState.CLOSED:
            last = draw(st.integers(firsts[-1] - 1, 2000))
            return value.closed(last, draw(st.integers(0, 2**40)))
        case LedgerState.IN_RECOVERY:
            return value.with_state(LedgerState.IN_RECOVERY)
        case _:
            return value


@given(metadatas())
def test_a_record_reads_back_and_encodes_the_same_again(value: LedgerMetadata) -> None:
    data = value.encode()
    assert LedgerMetadata.decode(PATH, data) == value
    assert LedgerMetadata.decode(PATH, data).encode() == data


@given(metadatas(), st.data())
def test_a_damaged_record_is_never_believed(value: LedgerMetadata, data: st.DataObject) -> None:
    record = bytearray(value.encode())
    index = data.draw(st.integers(0, len(record) - 1))
    record[index] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptRecordError) as caught:
        LedgerMetadata.decode(PATH, bytes(record))
    assert caught.value.path == PATH


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: body.pop("token"),
        lambda body: body.update(state="ajar"),
        lambda body: body.update(ledger="7"),
        lambda body: body.update(ledger=True),
        lambda body: body.update(write_quorum=9),
        lambda body: body.update(fragments=[]),
        lambda body: body.update(fragments=[[0, ["a", "b", 3]]]),
        lambda body: body.update(fragments=[[0, ["a", "b"]]]),
        lambda body: body.update(fragments=7),
        lambda body: body.update(last_entry=4),
        lambda body: body.update(custom=[]),
    ],
)
def test_a_sealed_record_with_impossible_content_is_corrupt(
    spoil: Callable[[dict[str, Any]], object],
) -> None:
    version, body = decode_record(PATH, "ledger", opened().encode())
    spoil(body)
    with pytest.raises(CorruptRecordError):
        LedgerMetadata.decode(PATH, encode_record("ledger", version, body))


def test_a_record_of_a_later_version_is_not_guessed_at() -> None:
    _, body = decode_record(PATH, "ledger", opened().encode())
    with pytest.raises(CorruptRecordError, match="version 2"):
        LedgerMetadata.decode(PATH, encode_record("ledger", 2, body))


@pytest.mark.parametrize(
    "changes",
    [
        {"ledger": -1},
        {"fragments": ()},
        {"fragments": (Fragment(1, ("a", "b", "c")),)},
        {"fragments": (Fragment(0, ("a", "b", "c")), Fragment(0, ("a", "b", "d")))},
        {"fragments": (Fragment(0, ("a", "b")),)},
        {"fragments": (Fragment(0, ("a", "b", "a")),)},
        {"last_entry": 3},
        {"length": 3},
        {"state": LedgerState.CLOSED},
        {"state": LedgerState.CLOSED, "last_entry": -2, "length": 0},
        {"state": LedgerState.CLOSED, "last_entry": 1, "length": -1},
    ],
)
def test_impossible_values_cannot_be_made(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="ledger"):
        opened(**changes)


@pytest.mark.parametrize("source", LedgerState)
@pytest.mark.parametrize("target", LedgerState)
def test_steps_are_those_of_the_table(source: LedgerState, target: LedgerState) -> None:
    value = opened()
    if source is LedgerState.CLOSED:
        value = value.closed(4, 40)
    elif source is LedgerState.IN_RECOVERY:
        value = value.with_state(source)

    def step() -> LedgerMetadata:
        return value.closed(4, 40) if target is LedgerState.CLOSED else value.with_state(target)

    if target in TRANSITIONS[source]:
        assert step().state is target
    else:
        expected = LedgerClosedError if value.is_closed else InvalidRequestError
        with pytest.raises(expected):
            step()


def test_closed_needs_an_end() -> None:
    with pytest.raises(InvalidRequestError, match="without an end"):
        opened().with_state(LedgerState.CLOSED)


def test_fragments_are_replaced_in_place_or_appended() -> None:
    value = opened().with_fragment(Fragment(0, ("a", "b", "d")))
    assert value.fragments == (Fragment(0, ("a", "b", "d")),)
    value = value.with_fragment(Fragment(10, ("a", "e", "d")))
    assert [fragment.first for fragment in value.fragments] == [0, 10]
    value = value.with_fragment(Fragment(10, ("f", "e", "d")))
    assert [fragment.first for fragment in value.fragments] == [0, 10]
    assert value.last_fragment.bookies == ("f", "e", "d")
    with pytest.raises(InvalidRequestError, match="below 10"):
        value.with_fragment(Fragment(9, ("a", "b", "c")))
    with pytest.raises(InvalidRequestError, match="below 10"):
        value.closed(8, 80)
    with pytest.raises(LedgerClosedError):
        value.closed(9, 80).with_fragment(Fragment(10, ("a", "b", "c")))


def test_an_entry_belongs_to_the_last_fragment_that_starts_at_or_below_it() -> None:
    value = opened().with_fragment(Fragment(10, ("a", "e", "d")))
    assert [value.fragment_of(entry).first for entry in (0, 9, 10, 99)] == [0, 0, 10, 10]
    assert value.write_set(9) == ("a", "b")
    assert value.write_set(11) == ("d", "a")
    with pytest.raises(InvalidRequestError):
        value.fragment_of(-1)


def test_re_replication_edits_only_what_no_longer_grows() -> None:
    value = opened().with_fragment(Fragment(10, ("a", "e", "d")))
    assert value.with_replica(0, 1, "z").fragments[0].bookies == ("a", "z", "c")
    for first in (10, 5):
        with pytest.raises(InvalidRequestError, match="no finished fragment"):
            value.with_replica(first, 0, "z")
    closed = value.closed(20, 100)
    assert closed.with_replica(10, 0, "z").last_fragment.bookies == ("z", "e", "d")
    assert closed.with_replica(10, 0, "z").last_entry == 20


def test_key_check_does_not_contain_the_key() -> None:
    assert key_check(b"a") != key_check(b"b")
    assert replace(opened(), key_check=key_check(b"a")) != opened()
