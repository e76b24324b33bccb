"""The registration record: what goes in comes out, and nothing else is believed."""

from __future__ import annotations

import pytest

from quire.bookie import BookieAddress
from quire.errors import CorruptRecordError
from quire.labels import Labels
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
        (1, {"address": "h:1", "writable": True, "room": -1}, "room -1"),
        (1, {"address": "h:1", "writable": True, "room": True}, "room True"),
        (1, {"address": "h:1", "writable": True, "labels": "rack=r1"}, "labels 'rack=r1'"),
        (1, {"address": "h:1", "writable": True, "labels": {"rack": "a b"}}, "labels"),
        (1, {"address": "h:1", "writable": True, "labels": {"rack": 7}}, "labels"),
    ],
)
def test_a_strange_registration_is_refused(
    version: int, body: dict[str, object], reason: str
) -> None:
    with pytest.raises(CorruptRecordError, match=reason):
        decode_registration("b1", encode_record("bookie", version, body))


def test_labels_and_room_come_back_and_a_later_level_is_passed_over() -> None:
    address = BookieAddress("b1", "h:1", labels=Labels(zone="a", host="h"), room=4096)
    data = encode_registration(address)
    assert decode_registration("b1", data) == address
    later = {"address": "h:1", "writable": True, "labels": {"zone": "a", "cell": "7"}}
    assert decode_registration("b1", encode_record("bookie", 1, later)).labels == Labels(zone="a")


def test_bytes_that_are_no_record_are_refused_by_path() -> None:
    with pytest.raises(CorruptRecordError, match="/quire/bookies/b1"):
        decode_registration("b1", b"127.0.0.1:4181")
