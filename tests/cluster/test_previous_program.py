"""The program before and the present one, together: tests/support/two_programs.py rolls them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.golden.previous.run_previous import unpack
from tests.support.two_programs import ROLLS, Rolling, command, mixture


@pytest.mark.timeout(600)  # some twenty processes start one after the other
def test_both_programs_work_together_in_any_order(tmp_path: Path) -> None:
    asyncio.run(Rolling(tmp_path).roll())


def test_the_program_before_is_another_program(tmp_path: Path) -> None:
    async def main() -> None:
        await command(unpack(tmp_path), "memory:", "cluster", "upgrade", "--help", code=2)

    asyncio.run(main())


def test_leaders_of_both_programs_meet_mixed_bookies() -> None:
    mixed = [number for number in range(len(ROLLS)) if len(set(mixture(number))) == 2]
    assert {number % 2 for number in mixed} == {0, 1}
