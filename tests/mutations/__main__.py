"""The command: make each edit in a copy, run its tests, renew the table in docs/ablations.md.

    python -m tests.mutations [--only NAME]

Before the edits all named tests run once on the copy as it is, and must pass. An edit is noticed
when at least one of its tests fails; a run that ends in any other way proves nothing. The table is
written only when every edit was tried. Exit code 1 when an edit went unnoticed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from tests.mutations.catalog import EDITS
from tests.mutations.edit import Edit

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "ablations.md"
LEFT_OUT: Final = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")
BEGIN: Final = "<!-- mutations: make mutations -->"
END: Final = "<!-- mutations end -->"

PASSED: Final = 0
FAILED: Final = 1
"""What pytest says when all tests ran, and when one of them failed."""

EDIT_SECONDS_MAX: Final = 900.0


def run_tests(copy: Path, tests: Iterable[str]) -> int:
    """Run tests in the copy; return pytest's exit code.

    No bytecode is written: a file that is edited twice in a second could be taken for the same.
    """
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, timeout=EDIT_SECONDS_MAX
    )
    return done.returncode


def is_noticed(edit: Edit, copy: Path) -> bool:
    """Make one edit in the copy, run its tests, and take the edit back."""
    path = copy / edit.file
    before = path.read_text()
    path.write_text(edit.edited(copy))
    try:
        return run_tests(copy, edit.tests) == FAILED
    finally:
        path.write_text(before)


def row(edit: Edit) -> str:
    """One line of the table."""
    return f"| {edit.name} | `{edit.file}` | `{' '.join(edit.tests)}` |"


def renew(page: Path, rows: Iterable[str]) -> None:
    """Put the table between the page's markers."""
    head = ("| edit | in | noticed by |", "|---|---|---|")
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text("\n".join([f"{before}{BEGIN}", *head, *rows, f"{END}{after}"]))


@click.command(help=__doc__)
@click.option("--only", default="", help="Part of a name.")
def main(only: str) -> None:
    edits = [each for each in EDITS if only in each.name]
    with tempfile.TemporaryDirectory(prefix="quire-mutations-") as directory:
        copy = Path(directory) / "quire"
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
        for tests in sorted({each.tests for each in edits}):
            if run_tests(copy, tests) != PASSED:
                raise click.ClickException(f"without any edit {' '.join(tests)} does not pass")
        missed = 0
        for edit in edits:
            noticed = is_noticed(edit, copy)
            click.echo(f"{'noticed ' if noticed else 'UNNOTICED'} {edit.name}")
            missed += not noticed
    if not only and not missed:
        renew(PAGE, map(row, edits))
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
