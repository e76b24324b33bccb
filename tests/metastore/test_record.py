"""The record envelope: canonical, checked, and honest about what is wrong."""

from __future__ import annotations

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import CorruptRecordError, InvalidRequestError
from quire.metastore.record import decode_record, encode_record, encode_value

PATH = "/quire/thing"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
bodies = st.dictionaries(st.text(), json_values, max_size=4)


@given(body=bodies, version=st.integers(1, 10**9 - 1))
def test_a_record_comes_back_as_it_was(body: dict[str, object], version: int) -> None:
    assert decode_record(PATH, "thing", encode_record("thing", version, body)) == (version, body)


def test_the_layout_is_one_line_and_json_with_sorted_keys() -> None:
    record = encode_record("log", 3, {"b": [1, None], "a": "ü"})
    header, text = record.split(b"\n")
    assert header.startswith(b"quire log v3 crc32c=")
    assert text == '{"a":"ü","b":[1,null]}'.encode()


def test_equal_bodies_encode_to_equal_bytes() -> None:
    assert encode_record("log", 1, {"a": 1, "b": 2}) == encode_record("log", 1, {"b": 2, "a": 1})


def test_every_flipped_bit_and_every_truncation_is_noticed() -> None:
    record = encode_record("ledger", 1, {"state": "open", "last": 17})
    damaged = [record[:size] for size in range(len(record))]
    for at in range(len(record)):
        for bit in range(8):
            flipped = bytearray(record)
            flipped[at] ^= 1 << bit
            damaged.append(bytes(flipped))
    for data in damaged:
        with pytest.raises(CorruptRecordError, match=PATH):
            decode_record(PATH, "ledger", data)


def test_another_kind_is_named() -> None:
    with pytest.raises(CorruptRecordError, match="is a cookie record, not a log record"):
        decode_record(PATH, "log", encode_record("cookie", 1, {}))


@pytest.mark.parametrize("body", [{"a": float("nan")}, {"a": b"bytes"}, {"a": "\ud800"}])
def test_what_json_cannot_carry_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(InvalidRequestError, match="log record"):
        encode_record("log", 1, body)


@pytest.mark.parametrize(("kind", "version"), [("", 1), ("Log", 1), ("a b", 1), ("log", 0)])
def test_unusable_kinds_and_versions_are_refused(kind: str, version: int) -> None:
    with pytest.raises(InvalidRequestError):
        encode_record(kind, version, {})


@pytest.mark.parametrize("ready", [set(), {"a"}, {"m"}, {"z"}, {"a", "z"}, {"a", "m", "z"}])
def test_a_field_that_was_encoded_before_has_the_same_bytes(ready: set[str]) -> None:
    body: dict[str, object] = {
        "z": [1, {"b": 2, "a": "\u00e9"}],
        "a": None,
        "m": [[1, "x"]],
        "n": 5,
    }
    body = {name: body[name] for name in body if name != "n" or ready != {"a", "m", "z"}}
    given = {name: encode_value(body[name]) if name in ready else body[name] for name in body}
    assert encode_record("log", 1, given) == encode_record("log", 1, body)
    assert encode_record("log", 1, {}).endswith(b"\n{}")


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000])
def test_a_record_that_is_nested_too_deeply_is_corrupt(text: str) -> None:
    header = encode_record("thing", 1, {}).split(b" crc32c=")[0]
    checksum = google_crc32c.value(header + b"\n" + text.encode())
    record = b"%b crc32c=%08x\n%b" % (header, checksum, text.encode())
    with pytest.raises(CorruptRecordError, match=f"{PATH}.*is not JSON"):
        decode_record(PATH, "thing", record)
