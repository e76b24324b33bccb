"""Addresses to listen on."""

from __future__ import annotations

import pytest

from quire.errors import ConfigurationError
from quire.wire.transport import WILDCARDS, advertised, split_address


@pytest.mark.parametrize(
    ("listen", "parts"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("bookie-1.example:65535", ("bookie-1.example", 65535)),
        ("[::1]:3181", ("[::1]", 3181)),
    ],
)
def test_host_and_port(listen: str, parts: tuple[str, int]) -> None:
    assert split_address(listen) == parts


@pytest.mark.parametrize(
    "listen",
    ["", "host", ":1", "host:", "host:x", "host:65536", "::1:3181", "[]:1", "unix:/tmp/quire:0"],
)
def test_what_is_no_address_is_refused(listen: str) -> None:
    with pytest.raises(ConfigurationError, match="expected host:port"):
        split_address(listen)


@pytest.mark.parametrize(
    ("address", "host", "told"),
    [
        ("10.0.0.7:4181", None, "10.0.0.7:4181"),
        ("0.0.0.0:4181", "bookie7.example.org", "bookie7.example.org:4181"),
        ("127.0.0.1:4181", "localhost", "localhost:4181"),
    ],
)
def test_what_clients_are_told(address: str, host: str | None, told: str) -> None:
    assert advertised(address, host) == told


@pytest.mark.parametrize("host", sorted(WILDCARDS - {"::"}))
def test_a_wildcard_is_never_told(host: str) -> None:
    with pytest.raises(ConfigurationError, match="--advertise HOST"):
        advertised(f"{host}:4181", None)
    with pytest.raises(ConfigurationError, match="--advertise HOST"):
        advertised("127.0.0.1:4181", host)


def test_what_is_told_is_a_host() -> None:
    with pytest.raises(ConfigurationError, match="host:port"):
        advertised("127.0.0.1:4181", "no host")
