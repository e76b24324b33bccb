"""What every `SegmentStore` promises, on virtual time."""

from __future__ import annotations

import pytest

from tests.contract.capabilities import fitting
from tests.contract.segments.subjects import SUBJECTS, Check, Run
from tests.support.async_tests import run_virtually


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "run" in metafunc.fixturenames:
        subjects = {name: able for name, (_, able) in SUBJECTS.items()}
        metafunc.parametrize("run", fitting(metafunc.function, subjects), indirect=True)


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Run:
    """Run a check with two clients of one fresh engine."""

    def over(check: Check) -> None:
        opener, able = SUBJECTS[request.param]

        async def main() -> None:
            async with opener() as subject:
                assert subject.one.capabilities == able
                await check(subject)

        run_virtually(main)

    return over
