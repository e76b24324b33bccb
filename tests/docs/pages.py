"""Steps of a page for readers: its programs and commands, and the output that it shows.

A page is a sequence of steps in one directory with a cluster in `./quire-data`: blocks of Python,
and indented commands. A block of `text` after a step is its whole output. A step that cannot run in
a test has a comment `<!-- not run: reason -->` before it. A command ends with 0, or as its comment
says: `# exit code 10`. Words like `$BOOKIE` stand for variables of the environment.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from quire.cli.root import main

ROOT = Path(__file__).resolve().parents[2]

INTEGRATIONS = ("celery", "faststream", "quix", "taskiq")
"""Pages of `docs/how-to` whose programs need a gateway for Kafka's clients."""

STEP = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n\n)?"
    r"(?:^```python\n(?P<program>.*?)^```\n|(?P<commands>(?:^ {4}\S[^\n]*\n)+))"
    r"(?:\n^```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
SHELL_ONLY = re.compile(r"[|<>$;&]")
HANGS_SECONDS = 600
"""No step takes so long, unless it hangs: a busy machine is slow."""
EXIT_CODE = re.compile(r"# exit code (\d+)")
SHELL = 'quire() { "$PYTHON" -m quire "$@"; }\n'


@dataclass(frozen=True)
class Step:
    """One block of a page."""

    program: str | None
    commands: str | None
    output: str | None
    reason: str | None


def steps(page: Path) -> list[Step]:
    return steps_of(page.read_text(encoding="utf-8"))


def steps_of(text: str) -> list[Step]:
    found = STEP.finditer(text)
    return [
        Step(each["program"], each["commands"], each["output"], each["reason"]) for each in found
    ]


def play(page: Path, directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Run the steps of a page and compare their output with the page's."""
    for step in steps(page):
        if step.reason is not None:
            continue
        if step.program is not None:
            exec(
                compile(step.program, str(page), "exec", dont_inherit=True),
                {"__name__": "__main__"},
            )
        else:
            assert step.commands is not None
            for line in step.commands.splitlines():
                run_line(line, directory)
        sys.stdout.flush()
        shown = capfd.readouterr().out
        assert step.output is None or shown == step.output


def run_line(line: str, directory: Path) -> None:
    """Run a command as a shell does; plain ones in this process, which is a second faster."""
    expanded = os.path.expandvars(line)
    words = shlex.split(expanded, comments=True)
    if words[0] == "quire" and not SHELL_ONLY.search(expanded):
        with pytest.raises(SystemExit) as ended:
            main(words[1:])
        code = ended.value.code
    else:
        code = _in_shell(line, directory)
    wanted = EXIT_CODE.search(line)
    assert code == (int(wanted[1]) if wanted else 0), line


def _in_shell(line: str, directory: Path) -> int:
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", SHELL + line],
        cwd=directory,
        env={key: value for key, value in environment.items() if not key.startswith("QUIRE_")},
        timeout=HANGS_SECONDS,
        check=False,
    ).returncode
