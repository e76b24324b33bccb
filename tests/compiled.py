"""The quick tests on compiled modules: `python -m tests.compiled DIRECTORY [ARGUMENT ...]`.

DIRECTORY is what `make compiled` made. Tests that reach into a part in a way that compiled classes
refuse are left out: they show something about the logic, which is the same, and run on plain
modules in `make test`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

PLAIN_ONLY: Final = {
    "tests/ledger/test_deadlines.py::test_the_alarm_rings_no_later_than_the_first_deadline": (
        "Doubles stand in for compiled classes."
    ),
    "tests/storage/offline/test_check.py::test_a_record_of_a_later_version_ends_a_description": (
        "It gives a kind of record that this version does not have."
    ),
}
"""Tests that are left out, each with its reason."""


def demand_compiled(root: Path) -> None:
    """Check that programs of a directory run on compiled modules.

    Raises:
        SystemExit: they do not.
    """
    ask = "import sys; from quire.version import is_compiled; sys.exit(not is_compiled())"
    environment = {**os.environ, "PYTHONPATH": str(root)}
    asked = subprocess.run([sys.executable, "-c", ask], cwd=root, env=environment, check=False)
    if asked.returncode:
        raise SystemExit(
            f"{root} has no compiled modules for {sys.executable}: remove it, and `make compiled`"
        )


def main() -> int:
    """Run the tests; return the exit code of pytest."""
    directory, *arguments = sys.argv[1:]
    root = Path(directory).resolve()
    demand_compiled(root)
    left_out = [f"--deselect={test}" for test in PLAIN_ONLY]
    command = [sys.executable, "-m", "pytest", *arguments, *left_out]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(command, cwd=root, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
