"""Completion in the shell, as docs/cli.md says to turn it on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import environment

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def completed(**variables: str) -> str:
    program = "from quire.cli import main; main(prog_name='quire')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(shell: str) -> None:
    assert f"_QUIRE_COMPLETE={shell}_source quire" in DOCUMENT
    assert "_QUIRE_COMPLETE" in completed(_QUIRE_COMPLETE=f"{shell}_source")


@pytest.mark.parametrize(
    ("words", "position", "expected"),
    [("quire l", 1, {"ledger", "log"}), ("quire log read --t", 3, {"--to"})],
)
def test_commands_and_options_are_completed(words: str, position: int, expected: set[str]) -> None:
    shown = completed(_QUIRE_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(position))
    assert {line.split(",")[1] for line in shown.splitlines()} == expected
