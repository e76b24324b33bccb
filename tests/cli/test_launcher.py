"""Ctrl-C while the `quire` command is being loaded, and when it has been."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

import quire.cli
import quire_command

INTERRUPTED_AT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, {handler})
sys.meta_path.insert(0, Interrupting())
sys.argv = ["quire", "--version"]
import quire_command
quire_command.main()
"""


def loaded(name: str, handler: str) -> subprocess.CompletedProcess[str]:
    """Run the command, with SIGINT when a module's import begins."""
    return subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT.format(name=name, handler=handler)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).resolve().parents[2],
    )


@pytest.mark.parametrize("name", ["quire", "quire.errors", "quire.cli.root"])
def test_ctrl_c_while_it_is_loaded_ends_it_silently(name: str) -> None:
    done = loaded(name, "signal.default_int_handler")
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    done = loaded("quire", "signal.SIG_IGN")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("quire")


def test_the_command_runs_with_the_handler_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: list[Any] = []

    def command() -> NoReturn:
        handlers.append(signal.getsignal(signal.SIGINT))
        raise KeyboardInterrupt

    def load() -> Callable[[], NoReturn]:
        handlers.append(signal.getsignal(signal.SIGINT))
        return command

    monkeypatch.setattr(quire.cli, "load", load)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit, match="130"):
            quire_command.main()
    finally:
        signal.signal(signal.SIGINT, before)
    assert handlers == [signal.SIG_DFL, signal.default_int_handler]
