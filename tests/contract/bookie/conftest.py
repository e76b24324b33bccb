"""What every `Bookie` promises (port 1): in memory, on disks, and behind a connection."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.contract.bookie.subjects import CAPABILITIES, OPENERS, Check, Run
from tests.contract.capabilities import fitting


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "run" in metafunc.fixturenames:
        metafunc.parametrize("run", fitting(metafunc.function, CAPABILITIES), indirect=True)


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    def over(check: Check) -> None:
        async def main() -> None:
            async with OPENERS[request.param](tmp_path) as subject:
                await check(subject)

        asyncio.run(main())

    return over
