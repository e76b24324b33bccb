"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from quire.sync import SyncLocalCluster

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^    make (\w+)", README, re.MULTILINE)


def test_the_programs_run_and_show_their_records(tmp_path: Path) -> None:
    asynchronous, blocking, spark = PROGRAMS
    endless = "follow=True"
    assert endless in blocking
    assert 'format("quire")' in spark, "tests/spark runs what this one shows"
    with SyncLocalCluster(tmp_path / "quire-data", bookies=3):
        first = run(asynchronous, tmp_path)
        second = run(blocking.replace(endless, "follow=False"), tmp_path)
    assert "1.0.0 0 b'buy 100'" in first
    assert second.split() == ["b'buy", "100'"]


def run(program: str, directory: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=directory,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("target", COMMANDS)
def test_every_make_target_it_names_exists(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE), target


def test_every_file_it_links_to_exists() -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README):
        assert (ROOT / target).exists(), target
