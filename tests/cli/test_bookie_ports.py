"""Which ports `quire bookie serve` opens."""

from __future__ import annotations

import pytest

from quire.cli.serving import runs_address


@pytest.mark.parametrize(
    ("listen", "asked", "runs"),
    [
        ("127.0.0.1:0", None, "127.0.0.1:0"),
        ("127.0.0.1:0", "none", None),
        ("10.0.0.7:4181", None, None),
        ("10.0.0.7:4180", None, None),
        ("10.0.0.7:4181", "10.0.0.7:4182", "10.0.0.7:4182"),
    ],
)
def test_a_port_that_nobody_named_is_opened_beside_no_other(
    listen: str, asked: str | None, runs: str | None
) -> None:
    assert runs_address(listen, asked) == runs
