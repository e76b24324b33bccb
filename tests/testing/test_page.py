"""Every block of docs/testing-applications.md runs as it is written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing-applications.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def blocks(word: str) -> list[str]:
    return [block for block in BLOCKS if word in block]


def test_the_tests_on_the_page_pass(pytester: pytest.Pytester) -> None:
    (plugin,) = blocks("pytest_plugins")
    tests = blocks("def test_")
    assert len(tests) == 2
    pytester.makeconftest(plugin)
    pytester.makepyfile("\n".join(tests))
    pytester.runpytest_subprocess("-p", "no:asyncio").assert_outcomes(passed=2)


def test_the_program_on_the_page_runs(tmp_path: Path) -> None:
    (program,) = blocks("asyncio.run")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)
    assert done.returncode == 0


def test_the_simulation_on_the_page_passes(tmp_path: Path) -> None:
    (program,) = blocks("explore")
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("none failed\n", "")


def test_no_block_is_left_out() -> None:
    assert len(BLOCKS) == 5
