"""Addresses to listen on."""

from __future__ import annotations

import pytest

from quire.errors import ConfigurationError
from quire.wire.transport import split_address


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
    with pytest.raises(ConfigurationError, match="say host:port"):
        split_address(listen)
