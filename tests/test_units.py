"""Durations and sizes as a person types them, and what is stored of them."""

from __future__ import annotations

import pytest

from quire.errors import ConfigurationError
from quire.log.manifest.options import STORED_OPTIONS, LogOptions, stored_text
from quire.units import parse_bytes, parse_seconds
from tests.support.log_cluster import NAME, LogCluster, run


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("1.5", 1.5),
        ("250ms", 0.25),
        ("7d", 604800.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("2w", 1209600.0),
        ("1d12h", 129600.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1048576", 1048576),
        ("64MiB", 64 * 1024**2),
        ("64 MiB", 64 * 1024**2),
        ("1.5KiB", 1536),
        ("2GB", 2_000_000_000),
        ("3kB", 3000),
        ("7B", 7),
        ("1TiB", 1024**4),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "d", "7 days", "7D", "-7d", "1h30", "7d ", "64MiB", "1,5h"])
def test_a_text_that_is_not_a_duration_is_refused_with_the_units(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a duration: .* such as 7d"):
        parse_seconds(text)


@pytest.mark.parametrize("text", ["", "MiB", "64M", "64mib", "64 megabytes", "-1MiB", "7d", "1.5"])
def test_a_text_that_is_not_a_size_is_refused_with_the_units(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a size: .* such as 64MiB"):
        parse_bytes(text)


def test_a_size_without_end_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is not a size: it has 401 characters"):
        parse_bytes("9" * 400 + "B")


def test_a_part_of_a_byte_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="whole number"):
        parse_bytes("0.0001kB")


@pytest.mark.parametrize("name", STORED_OPTIONS)
def test_every_option_of_bytes_or_seconds_takes_units(name: str) -> None:
    typed = {"bytes": "1MiB", "seconds": "2h"}.get(name.rpartition("_")[2])
    if typed is None:
        assert stored_text(name, "3") == "3"
    else:
        plain = {"1MiB": "1048576", "2h": "7200.0"}[typed]
        assert stored_text(name, typed) == plain
        value = getattr(LogOptions().with_stored({name: typed}), name)
        assert value == getattr(LogOptions().with_stored({name: plain}), name)


def test_a_manifest_stores_plain_numbers_so_that_older_programs_read_it() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            logs = cluster.new_client().logs
            made = await logs.create(NAME, {"retention_seconds": "7d", "roll_bytes": "64MiB"})
            assert made.settings == {"retention_seconds": "604800.0", "roll_bytes": "67108864"}
            changed = await logs.set_options(NAME, {"retention_seconds": "", "roll_seconds": "90"})
            assert changed.settings == {"roll_bytes": "67108864", "roll_seconds": "90"}
            with pytest.raises(ConfigurationError, match="roll_bytes='64M'"):
                await logs.set_options(NAME, {"roll_bytes": "64M"})

    run(main)
