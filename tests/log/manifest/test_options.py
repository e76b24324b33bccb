"""Options refuse what cannot work, by name; settings of the manifest win."""

from __future__ import annotations

from typing import Any

import pytest

from quire.errors import ConfigurationError
from quire.log.manifest.options import STORED_OPTIONS, LogOptions
from quire.log.records.batch import Compression


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        ({"roll_bytes": 0}, "roll_bytes"),
        ({"roll_seconds": -1.0}, "roll_seconds"),
        ({"batch_bytes": 1 << 30}, "batch_bytes"),
        ({"compression": "gzip"}, "compression 'gzip' is not one of none, lz4, zstd"),
    ],
)
def test_bad_values_are_named(bad: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        LogOptions(**bad)


def test_settings_win_over_options() -> None:
    options = LogOptions(roll_entries=7, batch_records=3).with_stored(
        {"roll_entries": "9", "compression": "zstd", "retention_seconds": "1.5"}
    )
    assert (options.roll_entries, options.batch_records) == (9, 3)
    assert options.compression is Compression.ZSTD
    assert options.retention_seconds == 1.5


@pytest.mark.parametrize("settings", [{"password": "x"}, {"roll_bytes": "many"}])
def test_a_setting_that_makes_no_sense_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        LogOptions().with_stored(settings)


def test_every_setting_is_an_option() -> None:
    assert set(STORED_OPTIONS) <= set(LogOptions.__slots__)


def test_the_password_is_never_shown() -> None:
    assert "secret" not in repr(LogOptions(password=b"secret"))
