"""A short soak: each kind of strike once, and one history for clients of five kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.soak.__main__ import soak
from tests.gateway.soak.storm import STRIKES

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(600)]


async def test_gateways_are_killed_paused_and_drained_under_five_kinds_of_clients(
    tmp_path: Path,
) -> None:
    assert await soak(0, len(STRIKES), 1, tmp_path) == []
