"""A process that holds an ephemeral record, for tests that stop and kill it.

    python -m tests.support.session_holder URI TIMEOUT PATH

Prints `holding` once it does, and when its session is over what it knows then: `expired=True`, and
the name of the error that another create raises.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quire.errors import QuireError
from quire.metastore import open_store

REPOSITORY = Path(__file__).parents[2]


async def hold(uri: str, timeout: float, path: str) -> None:
    store = await open_store(uri)
    session = await store.open_session(timeout)
    await session.create(path, b"held")
    print("holding", flush=True)
    await session.wait_expired()
    try:
        await session.create(path, b"held again")
        outcome = "created"
    except QuireError as error:
        outcome = type(error).__name__
    print(f"expired={session.expired} {outcome}", flush=True)
    await store.close()


class Holder:
    """The process, seen from the test. All methods block."""

    def __init__(self, uri: str, timeout: float, path: str) -> None:
        command = [sys.executable, "-m", __name__, uri, str(timeout), path]
        self._process = subprocess.Popen(
            command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def read_line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def holder(uri: str, timeout: float, path: str) -> Iterator[Holder]:
    """Run a holder that is holding."""
    process = Holder(uri, timeout, path)
    try:
        assert process.read_line() == "holding"
        yield process
    finally:
        process.end()


if __name__ == "__main__":
    asyncio.run(hold(sys.argv[1], float(sys.argv[2]), sys.argv[3]))
