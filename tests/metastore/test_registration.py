"""The registration record: what goes in comes out, and nothing else is believed."""

from __future__ import annotations

import pytest

from quire.bookie import BookieAddress
from quire.errors import CorruptRecordError
from quire.metastore.record import encode_record
from quire.metastore.registration import decode_registration, encode_registration


@pytest.mark.parametrize("runs", [None, "127.0.0.1:4182"])
@pytest.mark.parametrize("writable", [True, False])
def test_a_registration_comes_back(writable: bool, runs: str | None) -> None:
    address = BookieAddress("b1", "127.0.0.1:4181", writable, runs, says_hello=runs is not None)
    assert decode_registration("b1", encode_registration(address)) == address


@pytest.mark.parametrize(
    ("version", "body", "reason"),
    [
        (2, {"address": "h:1", "writable": True}, "version 2"),
        (1, {"writable": True}, "address None"),
        (1, {"address": "h:1", "writable": 1}, "writable 1"),
        (1, {"address": "h:1", "writable": True, "runs": 2}, "runs 2"),
    ],
)
def test_a_strange_registration_is_refused(
    version: int, body: dict[str, object], reason: str
) -> None:
    with pytest.raises(CorruptRecordError, match=reason):
        decode_registration("b1", encode_record("bookie", version, body))


def test_bytes_that_are_no_record_are_refused_by_path() -> None:
    with pytest.raises(CorruptRecordError, match="/quire/bookies/b1"):
        decode_registration("b1", b"127.0.0.1:4181")
