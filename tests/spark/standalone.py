"""A standalone Spark cluster of PySpark's own distribution: a master and two workers.

Executors are Java processes of their own, children of the workers. Everything is on 127.0.0.1, and
ends with the block.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pyspark

from tests.spark.drivers import descendants, kill
from tests.support.command import environment
from tests.support.java import BRISK, java_home

WORKERS: Final = 2
START_SECONDS: Final = 120.0
_CLASS: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"


class Standalone:
    """The cluster, for drivers and for those who kill its executors."""

    def __init__(self, master: str, workers: list[subprocess.Popen[bytes]]) -> None:
        self.master = master
        self._workers = workers

    def executors(self) -> list[int]:
        """The Java processes that run tasks."""
        found = []
        for worker in self._workers:
            for each in descendants(worker.pid):
                with contextlib.suppress(OSError):
                    if b"ExecutorBackend" in Path(f"/proc/{each}/cmdline").read_bytes():
                        found.append(each)
        return sorted(found)

    def kill_executor(self, rng: random.Random) -> bool:
        """Kill an executor, if there is one; its worker starts another one."""
        executors = self.executors()
        if executors:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(executors), signal.SIGKILL)
        return bool(executors)


@contextlib.contextmanager
def standalone(directory: Path) -> Iterator[Standalone]:
    """Start a cluster, and end it with all that it started. Raises `AssertionError`, with what was
    said, when a part does not start.
    """
    directory.mkdir()
    with ExitStack() as stack:
        deploy = "org.apache.spark.deploy"
        _, said = _start(stack, directory, "master", f"{deploy}.master.Master", "--port", "0")
        master = _wait_for(said, r"Starting Spark master at (spark://\S+)")
        workers = []
        for number in range(WORKERS):
            name = f"worker-{number}"
            worker, said = _start(
                *(stack, directory, name, f"{deploy}.worker.Worker", master),
                *("--port", "0", "--cores", "1", "--memory", "1g"),
                *("--work-dir", str(directory / name)),
            )
            _wait_for(said, r"(Successfully registered) with master")
            workers.append(worker)
        yield Standalone(master, workers)


def _start(
    stack: ExitStack, directory: Path, name: str, *arguments: str
) -> tuple[subprocess.Popen[bytes], Path]:
    said = directory / f"{name}.log"
    given = {
        "JAVA_HOME": str(java_home(directory / "java")),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        **BRISK,
    }
    with said.open("wb") as output:
        process = subprocess.Popen(
            [_CLASS, *arguments, "--host", "127.0.0.1", "--webui-port", "0"],
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=environment() | given,
        )
    stack.callback(kill, process)
    return process, said


def _wait_for(said: Path, pattern: str) -> str:
    deadline = time.monotonic() + START_SECONDS
    while (found := re.search(pattern, said.read_text())) is None:
        if time.monotonic() > deadline:
            raise AssertionError(f"{said.name}: {said.read_text()[-4000:]}")
        time.sleep(0.05)
    return found[1]
