"""Options and arguments of the wrong type are refused where they are given, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quire.errors import ConfigurationError, InvalidReplicationError, InvalidRequestError
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.log.manifest.options import LogOptions
from quire.log.records.keyring import KEY_BYTES, Keyring
from quire.log.records.position import Position, check_position
from quire.service import ServiceOptions
from quire.storage.journal.options import StorageOptions
from quire.storage.serving.limits import ServiceLimits
from quire.wire.certificates import TlsOptions


@pytest.mark.parametrize(
    ("kind", "given", "complaint"),
    [
        (LogOptions, {"roll_seconds": "5"}, "roll_seconds must be a number, not '5'"),
        (LogOptions, {"roll_bytes": 1e6}, "roll_bytes must be a whole number, not 1000000.0"),
        (LogOptions, {"roll_entries": True}, "roll_entries must be a whole number, not True"),
        (LogOptions, {"retention_cursors": 1}, "retention_cursors must be True or False, not 1"),
        (LogOptions, {"retention_seconds": "7d"}, "must be a number or None, not '7d'"),
        (LogOptions, {"replication": "3/3/2"}, "replication must be Replication, not '3/3/2'"),
        (LogOptions, {"keyring": {}}, "keyring must be Keyring or None, not a value of type dict"),
        (LogOptions, {"digest": "md5"}, "digest 'md5' is not one of crc32c"),
        (LogOptions, {"compression": 5}, "compression 5 is not one of none"),
        (LogOptions, {"open_timeout": None}, "open_timeout must be a number, not None"),
        (LedgerOptions, {"request_timeout": "5"}, "request_timeout must be a number, not '5'"),
        (LedgerOptions, {"bytes_in_flight_max": True}, "must be a whole number, not True"),
        (LedgerOptions, {"labels": "zone=a"}, "labels must be Labels, not 'zone=a'"),
        (ServiceOptions, {"snapshot_records": "9"}, "snapshot_records must be a whole number"),
        (ServiceOptions, {"snapshot_records": 0}, "snapshot_records must be positive, not 0"),
        (ServiceOptions, {"log": {}}, "log must be LogOptions, not {}"),
        (StorageOptions, {"scrub_seconds": "7d"}, "scrub_seconds must be a number, not '7d'"),
        (ServiceLimits, {"reads": 2.5}, "reads must be a whole number, not 2.5"),
        (TlsOptions, {"certificate": 5, "key": "k", "ca": "c"}, "certificate must be the path"),
    ],
)
def test_a_value_of_another_type_is_refused(
    kind: type[Any], given: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError) as found:
        kind(**given)
    assert complaint in str(found.value)


def test_a_secret_is_not_shown() -> None:
    with pytest.raises(ConfigurationError) as found:
        LogOptions(password="hunter2")  # type: ignore[arg-type]
    assert str(found.value) == "password must be bytes, not a value of type str"


def test_whole_numbers_are_numbers_and_names_are_kinds() -> None:
    options = LogOptions(roll_seconds=5, digest="crc32")  # type: ignore[arg-type]
    assert (options.roll_seconds, options.digest.name) == (5, "CRC32")
    assert TlsOptions("a", Path("b"), "c", "optional").mode == "optional"  # type: ignore[arg-type]


@pytest.mark.parametrize("numbers", [("3", 3, 2), (3, 3.0, 2), (3, 3, None), (3, 3, True)])
def test_replication_is_numbers(numbers: tuple[Any, Any, Any]) -> None:
    with pytest.raises(InvalidReplicationError):
        Replication(*numbers)


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        (5, "keys must be a mapping"),
        ({5: bytes(KEY_BYTES)}, "key id 5 is not text"),
        ({"a": "x" * KEY_BYTES}, "key 'a' is not bytes but str"),
    ],
)
def test_a_keyring_takes_keys_by_id(keys: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        Keyring(keys)


def test_a_position_is_not_its_text() -> None:
    for wrong in ("1.0.0", (1, 0, 0), 5, None):
        with pytest.raises(InvalidRequestError, match="not a position"):
            check_position(wrong)  # type: ignore[arg-type]
    check_position(Position(1, 0, 0))
