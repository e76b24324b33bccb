"""Every program and every command of the how-to pages runs as it stands, and shows what they say.

A page is a sequence of steps in one directory with a cluster in `./quire-data`: blocks of Python,
and indented commands. A block of `text` after a step is its whole output. A step that cannot run
here has a comment `<!-- not run: reason -->` before it; their number is pinned below.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import quire.sync
from quire.cli import main
from quire.sync import SyncLocalCluster

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [DOCS / "index.md", *sorted((DOCS / "how-to").glob("*.md"))]
NOT_RUN = {"spark.md": 3, "deploy.md": 2}
"""Steps with a reason not to run, by page."""

STEP = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n\n)?"
    r"(?:^```python\n(?P<program>.*?)^```\n|(?P<commands>(?:^ {4}\S[^\n]*\n)+))"
    r"(?:\n^```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
SHELL_ONLY = re.compile(r"[|<>$;&]")
SHELL = 'quire() { "$PYTHON" -m quire "$@"; }\n'


@dataclass(frozen=True)
class Step:
    """One block of a page."""

    program: str | None
    commands: str | None
    output: str | None
    reason: str | None


def steps(page: Path) -> list[Step]:
    found = STEP.finditer(page.read_text(encoding="utf-8"))
    return [
        Step(each["program"], each["commands"], each["output"], each["reason"]) for each in found
    ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("pages")
    with SyncLocalCluster(directory / "quire-data", bookies=3):
        yield directory


@pytest.fixture
def directory(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the cluster, which has no log."""
    with quire.sync.connect(str(cluster / "quire-data")) as client:
        for name in client.list_logs():
            client.delete_log(name)
    monkeypatch.chdir(cluster)
    return cluster


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_does_what_it_says(
    page: Path, directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for step in steps(page):
        if step.reason is not None:
            continue
        if step.program is not None:
            exec(compile(step.program, str(page), "exec"), {"__name__": "__main__"})
        else:
            assert step.commands is not None
            run(step.commands, directory)
        sys.stdout.flush()
        shown = capfd.readouterr().out
        assert step.output is None or shown == step.output


def run(commands: str, directory: Path) -> None:
    """Run commands as a shell does; plain ones in this process, which is a second faster."""
    for line in commands.splitlines():
        words = shlex.split(line)
        if words[0] == "quire" and not SHELL_ONLY.search(line):
            with pytest.raises(SystemExit) as ended:
                main(words[1:])
            code = ended.value.code
        else:
            code = in_shell(line, directory)
        assert code == 0, line


def in_shell(line: str, directory: Path) -> int:
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", SHELL + line],
        cwd=directory,
        env={key: value for key, value in environment.items() if not key.startswith("QUIRE_")},
        timeout=60,
        check=False,
    ).returncode


def test_the_steps_that_do_not_run_are_counted() -> None:
    found = {page.name: sum(step.reason is not None for step in steps(page)) for page in PAGES}
    assert {name: count for name, count in found.items() if count} == NOT_RUN


def test_no_block_of_python_is_left_out() -> None:
    for page in PAGES:
        blocks = page.read_text(encoding="utf-8").count("```python")
        assert sum(step.program is not None for step in steps(page)) == blocks, page


def test_no_page_without_a_step_but_the_index() -> None:
    assert [page.name for page in PAGES if not steps(page)] == ["index.md"]
