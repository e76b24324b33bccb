"""One bookie as a child process: started, announced, signalled, reaped.

The child is `python -m quire bookie serve`. Once clients can find it, it prints its id and
addresses on standard output, in one line of JSON; its log goes to a file. Its standard input is a
pipe that this process never writes to: when this process ends, however it ends, the pipe closes
and the child exits as well (`--exit-with-parent`). Every signal goes to the child's own pid, and
only while it has not been reaped, so it can never reach another process that was given the same
number.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from quire.aio.timing import time_limit
from quire.errors import BookieUnavailableError

STOP_SECONDS: Final = 10.0
"""A bookie that was asked to stop is killed after this time."""

LOG_TAIL_BYTES: Final = 4096

PROGRAM: Final = ("-m", "quire")


class ProcessState(StrEnum):
    """The state of a child process, as far as its parent knows."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class Ready:
    """A bookie's announcement, once clients can find it."""

    bookie: str
    address: str


class _Protocol(asyncio.SubprocessProtocol):
    """Collects the first line of standard output and the exit."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[Ready | None] = loop.create_future()
        self.exited: asyncio.Future[None] = loop.create_future()
        self._output = b""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self.ready.done():
            return
        self._output += data
        line, newline, _ = self._output.partition(b"\n")
        if newline:
            said = json.loads(line)
            self.ready.set_result(Ready(said["bookie"], said["address"]))

    def process_exited(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)
        if not self.exited.done():
            self.exited.set_result(None)


class BookieProcess:
    """A running (or ended) child. Made by `start`."""

    def __init__(
        self, transport: asyncio.SubprocessTransport, protocol: _Protocol, name: str, log: Path
    ) -> None:
        self._transport = transport
        self._protocol = protocol
        self._paused = False
        self.name = name
        self.log = log

    @classmethod
    async def start(
        cls, name: str, arguments: Sequence[str], log: Path, program: Sequence[str] = PROGRAM
    ) -> BookieProcess:
        """Start `python -m quire` with some arguments, or what else `program` names after `python`;
        its standard error is added to `log`.
        """
        loop = asyncio.get_running_loop()
        with log.open("ab") as stderr:
            transport, protocol = await loop.subprocess_exec(
                _Protocol,
                sys.executable,
                "-P",  # files in the current directory are not modules of the child
                *program,
                *arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=child_environment(),
                # Ctrl-C at the terminal is for this process, which then stops its children.
                start_new_session=True,
            )
        return cls(transport, protocol, name, log)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._transport.get_pid()

    @property
    def exit_code(self) -> int | None:
        """How it ended: None while it runs, negative for a signal."""
        return self._transport.get_returncode()

    @property
    def ready(self) -> Ready | None:
        """The bookie's id and addresses, once it has announced them."""
        future = self._protocol.ready
        return future.result() if future.done() else None

    @property
    def state(self) -> ProcessState:
        """The state of the process."""
        if self._protocol.exited.done():
            return ProcessState.EXITED
        if self._paused:
            return ProcessState.PAUSED
        return ProcessState.RUNNING if self.ready else ProcessState.STARTING

    async def wait_ready(self, timeout: float) -> Ready:
        """Return when clients can find the bookie.

        Raises `BookieUnavailableError`, with the last words of its log, when it ended instead, or
        was not ready within `timeout` seconds.
        """
        try:
            async with time_limit(timeout):
                ready = await asyncio.shield(self._protocol.ready)
        except TimeoutError:
            raise BookieUnavailableError(
                self.name, f"it was not ready after {timeout:g} s; its log is {self.log}"
            ) from None
        if ready is None:
            raise BookieUnavailableError(self.name, self.last_words())
        return ready

    async def wait_exited(self) -> None:
        """Return when the process has ended and was reaped."""
        await asyncio.shield(self._protocol.exited)

    def last_words(self) -> str:
        """Return how the process ended and the last line of its log."""
        said = b""
        with suppress(OSError):  # the log may be removed: the cluster must stop all the same
            said = self.log.read_bytes()[-LOG_TAIL_BYTES:]
        lines = said.decode(errors="replace").splitlines()
        last = lines[-1].removeprefix("quire: ") if lines else "it said nothing"
        return f"it ended with code {self.exit_code}: {last} (log: {self.log})"

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.state is ProcessState.EXITED:
            return
        self._transport.send_signal(number)
        if number in (signal.SIGSTOP, signal.SIGCONT):
            self._paused = number is signal.SIGSTOP

    async def stop(self) -> None:
        """Ask the process to end and wait until it has.

        It is killed after `STOP_SECONDS`, or as soon as this is cancelled: it is gone either way.
        """
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        try:
            async with time_limit(STOP_SECONDS):
                await self.wait_exited()
        except TimeoutError:
            await self._kill()
        except BaseException:  # a second Ctrl-C, which cancels: the user does not want to wait
            await self._kill()
            raise
        finally:
            self._transport.close()

    async def _kill(self) -> None:
        self.send(signal.SIGKILL)
        await self.wait_exited()


def child_environment() -> dict[str, str]:
    """Return the child's environment: ours, plus the path of this very package if not installed.

    The path is that of the directory with `quire` in it: with `quire` itself on the path, modules
    such as `quire/inspect.py` would replace the modules of Python.
    """
    environment = dict(os.environ)
    package_home = str(Path(__file__).resolve().parents[2])
    if package_home != sysconfig.get_path("purelib"):
        rest = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = package_home + (os.pathsep + rest if rest else "")
    return environment
