"""What every `LedgerRecords` promises: over each store, and with as little as a system can do."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.contract.capabilities import fitting
from tests.contract.records.subjects import SUBJECTS, Check, Run, Subject

DEADLINE_SECONDS = 30.0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "run" in metafunc.fixturenames:
        subjects = {name: each.capabilities for name, each in SUBJECTS.items()}
        metafunc.parametrize("run", fitting(metafunc.function, subjects), indirect=True)


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Run a check with two clients of one fresh tree."""

    def over(check: Check) -> None:
        async def main() -> None:
            found = SUBJECTS[request.param]
            backend = found.backend(tmp_path)
            async with asyncio.timeout(DEADLINE_SECONDS):
                store, other = await backend.client(), await backend.client()
                try:
                    one = found.over(store, random.Random(1))
                    await check(Subject(one, found.over(other, random.Random(2)), store))
                finally:
                    await other.close()
                    await store.close()

        asyncio.run(main())

    return over
