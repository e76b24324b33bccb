"""The `quire` command as a real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.forked import run_forked

SECONDS_MAX = 60.0
"""No command of a test may take longer."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> list[Any]:
        """The JSON values on standard output, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def quire(
    *arguments: str, store: str | None = None, stdin: str = "", seconds_max: float = SECONDS_MAX
) -> Finished:
    """Run `quire` to its end, in a process that was forked (forked.py)."""
    return _finished(arguments, run_forked(arguments, environment(store), stdin, seconds_max))


def quire_from_the_start(*arguments: str, store: str | None = None) -> Finished:
    """Run `quire` to its end in a process that inherits from this one, as a shell starts it."""
    done = subprocess.run(
        [sys.executable, "-m", "quire", *arguments],
        input="",
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env=environment(store),
        check=False,
    )
    return _finished(arguments, done)


def _finished(arguments: Sequence[str], done: subprocess.CompletedProcess[str]) -> Finished:
    if done.returncode:  # shown if the test fails
        print(f"quire {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr}")
    return Finished(done.returncode, done.stdout, done.stderr)


def environment(store: str | None = None) -> dict[str, str]:
    """Return an environment in which only `store` is known."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("QUIRE_")}
    here = {**kept, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    return here if store is None else {**here, "QUIRE_STORE": store}


@contextmanager
def started(
    *arguments: str, store: str | None = None, stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[str]]:
    """Run `quire` while the block runs; it is ended with SIGKILL if it still runs then."""
    process = subprocess.Popen(
        [sys.executable, "-m", "quire", *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(store),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A `quire cluster up` that runs."""

    store: str
    directory: Path
    bookies: list[dict[str, Any]]


@contextmanager
def cluster_up(directory: Path, bookies: int) -> Iterator[RunningCluster]:
    """Run `quire cluster up` while the block runs, and stop it with Ctrl-C."""
    options = ("--bookies", str(bookies), "--data", str(directory), "--json", "--exit-with-parent")
    with started("cluster", "up", *options, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        said = json.loads(line)
        yield RunningCluster(said["store"], Path(said["directory"]), said["bookies"])
        process.send_signal(signal.SIGINT)
        process.wait(SECONDS_MAX)


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not merely unreaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
