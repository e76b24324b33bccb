"""The pure parts of Durable Streams: states, requests, bodies, and numbers of producers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import InvalidRequestError
from quire.gateway.durable.asking import Sender, sender_of, wanted
from quire.gateway.durable.bodies import EVENT_EPOCH, body_of, cursor_of, event, payloads_of
from quire.gateway.durable.numbers import (
    EPOCH_MAX,
    SEQUENCE_MAX,
    Verdict,
    judge,
    name_of,
    number_of,
)
from quire.gateway.durable.state import (
    STATE,
    Closer,
    StreamState,
    decode_state,
    is_over,
    offset_text,
    parse_offset,
)
from quire.log.records.position import Position, Record
from quire.log.records.producers import NAME_BYTES_MAX

TEXT, VALUES = StreamState("text/plain"), StreamState("application/json; charset=utf-8")


def record(payload: bytes, state: bytes | None = None, offset: int = 0) -> Record:
    headers = () if state is None else ((STATE, state),)
    return Record(Position(1, 0, offset), offset, 1, 0, payload, headers=headers)


@pytest.mark.parametrize(
    "state",
    [
        TEXT,
        StreamState("a/b", 7, None, is_closed=True, sequence="é", closer=Closer("p", 1, 2), id="x"),
        StreamState("a/b", None, "2030-01-01T00:00:00Z"),
    ],
)
def test_a_state_is_kept_in_a_record(state: StreamState) -> None:
    assert decode_state(record(b"", state.encode())) == state


def test_a_record_without_the_header_has_no_state() -> None:
    assert decode_state(record(b"x")) is None


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"[]", b"{}", b"\xff", b'{"type":1}'),
        *(
            b'{"type":"a/b",' + each + b"}"
            for each in (
                *(b'"closer":1', b'"closer":["p",1]', b'"closer":["p","1",2]', b'"ttl":"x"'),
                *(b'"ttl":1.5', b'"expires":"soon"', b'"expires":7', b'"seq":1', b'"closed":1'),
                b'"id":[]',
            )
        ),
    ],
)
def test_a_wrong_header_is_named(value: bytes) -> None:
    with pytest.raises(InvalidRequestError, match=r"record 3 .*not the state"):
        decode_state(record(b"", value, 3))


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_texts_of_offsets_are_ordered_as_they_are(one: int, other: int) -> None:
    assert parse_offset(offset_text(one)) == one
    assert (offset_text(one) < offset_text(other)) == (one < other)


@pytest.mark.parametrize("text", ["", "1", "-2", "now", "١" * 19, "9" * 19, "0" * 20, "0 " * 9])
def test_other_offsets_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="offset"):
        parse_offset(text)


@pytest.mark.parametrize(
    "headers",
    [
        {"stream-ttl": "+1"},
        {"stream-ttl": "01"},
        {"stream-ttl": "1.0"},
        {"stream-ttl": ""},
        {"stream-ttl": "9" * 30},
        {"stream-expires-at": "2030-01-01"},
        {"stream-expires-at": "2030-13-01T00:00:00Z"},
        {"stream-expires-at": "2030-01-01T00:00:00"},
        {"stream-ttl": "1", "stream-expires-at": "2030-01-01T00:00:00Z"},
        {"content-type": "text"},
        {"content-type": "a/b\r\nx: y"},
    ],
)
def test_wrong_headers_of_a_new_stream_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidRequestError):
        wanted(headers)


def test_a_stream_is_as_its_headers_say() -> None:
    assert wanted({}) == StreamState("application/octet-stream")
    given_ = {"content-type": "Text/Plain", "stream-ttl": "0", "stream-closed": "TRUE"}
    assert wanted(given_) == StreamState("Text/Plain", 0, is_closed=True)
    assert wanted({"stream-closed": "yes"}).is_closed is False
    assert StreamState("Text/Plain; a=b").is_created_by(TEXT)
    assert not VALUES.is_created_by(TEXT)


def test_a_stream_ends_at_its_time_or_when_it_is_not_used() -> None:
    assert not is_over(TEXT, 1e12, 1e12)
    assert not is_over(StreamState("a/b", 2), 1e12, 1.9)
    assert is_over(StreamState("a/b", 2), 0.0, 2.0)
    assert not is_over(StreamState("a/b", None, "1970-01-01T00:00:01Z"), 0.9, 1e12)
    assert is_over(StreamState("a/b", None, "1970-01-01T00:00:01Z"), 1.0, 0.0)


@pytest.mark.parametrize(
    ("body", "payloads"),
    [
        (b'{"a": 1}', [b'{"a": 1}']),
        (b' [1, "]", [2,3], {"a":[]} ] ', [b"1", b'"]"', b"[2,3]", b'{"a":[]}']),
        (b"[]", []),
        (b"[[1,2]]", [b"[1,2]"]),
        (b"1.50", [b"1.50"]),
        (b"[1e400]", [b"1e400"]),
    ],
)
def test_values_keep_their_texts(body: bytes, payloads: list[bytes]) -> None:
    assert payloads_of(VALUES, body) == payloads
    kept = json.loads(body_of(VALUES, [record(each) for each in payloads]))
    given_ = json.loads(body)
    assert kept == (given_ if isinstance(given_, list) else [given_])


@pytest.mark.parametrize(
    "body",
    [b"{", b"[1", b"[1,]", b"[1 2]", b"1 2", b"[]]", b"NaN", b"[Infinity]", b"\xff", b"[" * 99999],
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="not JSON"):
        payloads_of(VALUES, body)


@given(st.lists(st.recursive(st.integers() | st.text() | st.none(), st.lists, max_leaves=5)))
def test_lists_are_taken_apart_once(values: list[object]) -> None:
    payloads = payloads_of(VALUES, json.dumps(values).encode())
    assert [json.loads(each) for each in payloads] == values


def test_records_without_payload_are_no_part_of_a_body() -> None:
    assert body_of(TEXT, [record(b""), record(b"a"), record(b"b"), record(b"")]) == b"ab"
    assert body_of(VALUES, [record(b"")]) == b"[]"


@given(st.text(alphabet="a \n\r:"))
def test_a_payload_is_no_event_of_its_own(text: str) -> None:
    made = event("data", text.encode()).decode()
    head, *lines = made.split("\n")
    assert head == "event: data"
    assert lines[-2:] == ["", ""]
    read = [line.removeprefix("data:").removeprefix(" ") for line in lines[:-2]]
    assert "\n".join(read) == text.replace("\r\n", "\n").replace("\r", "\n")


def test_cursors_never_go_back() -> None:
    now = EVENT_EPOCH + 20 * 1000
    assert cursor_of(None, now, 5) == "1000"
    assert cursor_of("999", now, 5) == "1000"
    assert cursor_of("1000", now, 5) == "1005"
    assert cursor_of("5000", now, 5) == "5005"
    assert cursor_of("x", now, 5) == "1000"


SENDERS = st.builds(Sender, st.just("p"), st.integers(0, EPOCH_MAX), st.integers(0, SEQUENCE_MAX))


@given(SENDERS, SENDERS)
def test_numbers_are_ordered_by_epoch_and_sequence(one: Sender, other: Sender) -> None:
    assert (number_of(one) < number_of(other)) == (one < other)
    assert 0 <= number_of(one) < 2**63


@pytest.mark.parametrize(
    ("last", "epoch", "sequence", "verdict"),
    [
        (None, 0, 0, Verdict.NEW),
        (None, 5, 0, Verdict.NEW),
        (None, 0, 1, Verdict.TOO_EARLY),
        ((0, 0), 0, 0, Verdict.REPEATED),
        ((0, 4), 0, 2, Verdict.REPEATED),
        ((0, 0), 0, 1, Verdict.NEW),
        ((0, 0), 0, 2, Verdict.TOO_EARLY),
        ((0, 9), 1, 0, Verdict.NEW),
        ((0, 9), 1, 1, Verdict.NOT_FROM_ZERO),
        ((2, 0), 1, 0, Verdict.STALE),
        ((2, 0), 1, 7, Verdict.STALE),
    ],
)
def test_appends_of_a_producer_are_judged(
    last: tuple[int, int] | None, epoch: int, sequence: int, verdict: Verdict
) -> None:
    number = None if last is None else number_of(Sender("p", *last))
    assert judge(Sender("p", epoch, sequence), number).verdict is verdict


@given(st.text(min_size=1, max_size=300))
def test_names_of_producers_fit(producer: str) -> None:
    assert len(name_of(producer).encode(errors="surrogatepass")) <= NAME_BYTES_MAX


def test_long_names_stay_apart() -> None:
    assert name_of("x" * 200) != name_of("x" * 201)


@pytest.mark.parametrize(
    "headers",
    [
        {"producer-id": "p"},
        {"producer-id": "p", "producer-epoch": "0"},
        {"producer-id": "", "producer-epoch": "0", "producer-seq": "0"},
        {"producer-id": "p", "producer-epoch": "-1", "producer-seq": "0"},
        {"producer-id": "p", "producer-epoch": "0", "producer-seq": "1.5"},
        {"producer-id": "p", "producer-epoch": str(2**31), "producer-seq": "0"},
    ],
)
def test_wrong_producers_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidRequestError):
        sender_of(headers, EPOCH_MAX, SEQUENCE_MAX)
