"""Spark drivers as processes of their own, to be killed with everything they started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.command import environment
from tests.support.java import BRISK, java_home


def start_driver(module: str, *arguments: str, log: Path) -> subprocess.Popen[bytes]:
    """Run a module that makes a Spark session; what it says goes into a file."""
    java = java_home(log.parent / "java")
    given = {"JAVA_HOME": str(java), "SPARK_LOCAL_IP": "127.0.0.1", **BRISK}
    inherited = {
        name: value for name, value in environment().items() if "PYSPARK_GATEWAY" not in name
    }
    with log.open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdout=said,
            stderr=said,
            start_new_session=True,
            env=inherited | given,
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a driver with everything it started."""
    workers = descendants(process.pid)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for worker in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def descendants(process: int) -> list[int]:
    """The processes that a process started, directly or not."""
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            number, _, rest = status.read_text().partition(" (")
            parents[int(number)] = int(rest.rpartition(") ")[2].split()[1])
    found = [process]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


class GaveUpError(Exception):
    """Spark ended a driver by itself: it gives its Python workers ten seconds to start."""


def wait_for(process: subprocess.Popen[bytes], log: Path, event: Callable[[], bool]) -> None:
    """Wait for something that a driver does."""
    while not event():
        if process.poll() is not None:
            if "Python worker failed to connect back" in log.read_text()[-20_000:]:
                raise GaveUpError
            raise AssertionError(log.read_text()[-4000:])
        time.sleep(0.05)
