"""The directed test that the note of an ablation names, run without the safeguard: it must fail.

    python -m tests.sim.ablations.directed NAME

A process of its own imports the test after the safeguard was removed, so the test cannot hold a
name of the whole code.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.sim.ablations.catalog import ABLATIONS
from tests.sim.ablations.patch import Ablation

ROOT: Final = Path(__file__).resolve().parents[3]


def is_noticed(ablation: Ablation) -> bool:
    """Return whether a test fails. Raises AssertionError when the tests cannot run."""
    command = [sys.executable, "-m", "tests.sim.ablations.directed", ablation.name]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), done.stdout
    return done.returncode == pytest.ExitCode.TESTS_FAILED


def main() -> None:
    (name,) = sys.argv[1:]
    ablation = next(each for each in ABLATIONS if each.name == name)
    with ablation.removed() as misfits:
        code = pytest.main(["-x", "-p", "no:cacheprovider", ablation.test])
    if misfits:
        raise AssertionError(f"{ablation.name}: its patch does not fit") from misfits[0]
    sys.exit(code)


if __name__ == "__main__":
    main()
