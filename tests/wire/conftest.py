"""How runs travel: tests of `carrier` are made once with each."""

from __future__ import annotations

import pytest

from tests.wire import link


@pytest.fixture(params=["grpc", "frames"])
def carrier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have `served` take runs by one carrier, and `far` send them by it."""
    name: str = request.param
    monkeypatch.setattr(link, "LISTEN_RUNS", "127.0.0.1:0" if name == "frames" else None)
    return name
