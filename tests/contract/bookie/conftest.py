"""What every `Bookie` promises (port 1): in memory, on disks, and behind a connection."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.contract.bookie.subjects import OPENERS, Check, Run


@pytest.fixture(params=sorted(OPENERS))
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    def over(check: Check) -> None:
        async def main() -> None:
            async with OPENERS[request.param](tmp_path) as subject:
                await check(subject)

        asyncio.run(main())

    return over
