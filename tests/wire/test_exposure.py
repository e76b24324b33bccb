"""Which addresses need the operator's consent, and what a bookie does without it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from quire.errors import ConfigurationError
from quire.storage.server import serve
from quire.wire.exposure import CONSENT, exposed, is_loopback

LOCAL = ["127.0.0.1:0", "127.8.8.8:4181", "[::1]:4181", "localhost:0", "LOCALHOST:4181"]
NETWORK = [
    *("10.0.0.7:4181", "0.0.0.0:4181", "[::]:0", "[2001:db8::7]:4181", "bookie7:4181"),
    # Hosts that look like this machine's.
    *("localhost.example.org:1", "127.0.0.1.example.org:1", "128.0.0.1:1", "[::2]:1", "0:1"),
]


@pytest.mark.parametrize("listen", LOCAL)
def test_this_machine_needs_no_consent(listen: str) -> None:
    assert is_loopback(listen)
    assert exposed("bookie", [listen], accepted=False) == []


@pytest.mark.parametrize("listen", NETWORK)
def test_the_network_needs_consent(listen: str) -> None:
    assert not is_loopback(listen)
    with pytest.raises(ConfigurationError, match=f"pass {CONSENT}") as caught:
        exposed("bookie", ["127.0.0.1:0", listen], accepted=False)
    assert listen in str(caught.value)
    assert "127.0.0.1:0" not in str(caught.value)
    assert exposed("bookie", ["127.0.0.1:0", listen], accepted=True) == [listen]


def test_what_is_no_address_is_refused_with_consent_too() -> None:
    with pytest.raises(ConfigurationError, match="expected host:port"):
        exposed("bookie", ["10.0.0.7"], accepted=True)


@pytest.mark.parametrize(
    "listening", [("0.0.0.0:0", None), ("127.0.0.1:0", "10.0.0.7:4182")], ids=["grpc", "runs"]
)
def test_no_port_is_opened_and_no_file_made_without_consent(
    tmp_path: Path, listening: tuple[str, str | None]
) -> None:
    listen, runs = listening
    serving = serve(tmp_path / "bookie", f"sqlite://{tmp_path}/m.db", listen, listen_runs=runs)
    with pytest.raises(ConfigurationError, match=CONSENT):
        asyncio.run(serving)
    assert not list(tmp_path.iterdir())


def test_what_was_accepted_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    serving = serve(
        tmp_path / "bookie",
        f"sqlite://{tmp_path}/m.db",
        "127.0.0.1:0",
        listen_runs="0.0.0.0:4182",
        insecure_network=True,
    )
    with pytest.raises(ConfigurationError, match="format a bookie there first"):
        asyncio.run(serving)
    (said,) = [each.getMessage() for each in caplog.records if "TLS" in each.getMessage()]
    assert said.startswith("0.0.0.0:4182 has no TLS")
