"""`quire certificates`: mistakes in what is asked for are refused before a file is written."""

from __future__ import annotations

from pathlib import Path

import click.testing
import pytest

from quire.cli.root import main

BOOKIE = "5f2c9e0b7a1d4c338e6f0a9b2d4c6e81"


def issue(directory: Path, *arguments: str) -> click.testing.Result:
    command = ["certificates", "issue", *arguments, "--directory", str(directory)]
    return click.testing.CliRunner().invoke(main, command)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    directory = tmp_path / "certificates"
    assert issue(directory, "ca").exit_code == 0
    return directory


def names(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


@pytest.mark.parametrize(
    "mistyped",
    [
        BOOKIE[:-1],
        BOOKIE + "0",
        BOOKIE[:8],
        BOOKIE.upper(),
        BOOKIE[:-1] + "o",
        "bookie1",
        "a" * 300,
    ],
)
def test_a_mistyped_id_of_a_bookie_gets_no_certificate(authority: Path, mistyped: str) -> None:
    done = issue(authority, "bookie", mistyped)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{mistyped!r} is neither the id of a bookie, which is 32 digits" in done.stderr
    assert "`quire bookie list --all`" in done.stderr
    assert names(authority) == ["ca-key.pem", "ca.pem"]


def test_the_id_of_a_bookie_gets_a_certificate(authority: Path) -> None:
    assert issue(authority, "bookie", BOOKIE).exit_code == 0
    assert f"bookie-{BOOKIE}.pem" in names(authority)


@pytest.mark.parametrize("left", ["ca.pem", "ca-key.pem"])
def test_an_authority_is_never_replaced_even_if_one_file_is_elsewhere(
    authority: Path, left: str
) -> None:
    for each in authority.iterdir():
        if each.name != left:
            each.unlink()
    before = (authority / left).read_bytes()
    done = issue(authority, "ca")
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{authority / left} exists already" in done.stderr
    assert (authority / left).read_bytes() == before
    assert names(authority) == [left]


@pytest.mark.parametrize(
    "host", ["", "x y", "a=b", "/disk", "a..b", "line\nbreak", "a" * 64, "é", "10.0.0.300"]
)
def test_a_host_that_no_client_looks_for_gets_no_certificate(authority: Path, host: str) -> None:
    done = issue(authority, "bookie", BOOKIE, "--host", host)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"--host {host!r} is neither a DNS name nor an address" in done.stderr
    assert names(authority) == ["ca-key.pem", "ca.pem"]


@pytest.mark.parametrize("host", ["b7", "*.example.com", "bookie_7.local", "10.0.0.7", "::1"])
def test_names_and_addresses_are_hosts(authority: Path, host: str) -> None:
    assert issue(authority, "bookie", BOOKIE, "--host", host).exit_code == 0
