"""The processes of one peer's servers: begin, wait, and end by their own pids."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.peers.peer import UnavailableError

START_SECONDS: Final = 60.0
STEP_SECONDS: Final = 0.1
END_SECONDS: Final = 10.0


class User(NamedTuple):
    """Of the processes, when they may not run as root."""

    uid: int
    gid: int


class Processes:
    """The servers of a peer, each with a log of its own.

    Args:
        directory: of the logs; it does not exist yet.
        user: None: the user of this process.
    """

    def __init__(self, directory: Path, user: User | None = None) -> None:
        self._directory = directory
        self._user = user
        self._servers: list[subprocess.Popen[bytes]] = []
        self._helpers: list[subprocess.Popen[bytes]] = []

    def begin(
        self, name: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start a server. Raises `OSError`."""
        self._servers.append(self._launch(name, command, environment))
        return self._servers[-1]

    async def finish(
        self, name: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        """Run a command to its end. Raises `UnavailableError` when it fails."""
        helper = self._launch(name, command, environment)
        self._helpers.append(helper)
        # Ends at the latest with `end`.
        if code := await asyncio.to_thread(helper.wait):
            raise self._failed(name, f"exit code {code}")

    def _launch(
        self, name: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        uid, gid, groups = (None, None, None) if self._user is None else (*self._user, ())
        with self._log(name).open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory,
                env=environment,
                user=uid,
                group=gid,
                extra_groups=groups,
            )

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    async def wait_for(self, name: str, port: int, process: subprocess.Popen[bytes]) -> None:
        """Return when a server listens.

        Raises:
            UnavailableError: It has ended, or does not listen within `START_SECONDS`.
        """
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and process.poll() is None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(STEP_SECONDS)
            else:
                writer.close()
                return
        raise self._failed(name, f"port {port} does not listen")

    def _failed(self, name: str, reason: str) -> UnavailableError:
        lines = self._log(name).read_text(errors="replace").strip().splitlines()
        return UnavailableError(f"{name}: {reason}; it said last: {lines[-1] if lines else '–'}")

    def pids(self) -> Sequence[int]:
        """Return the pids of the servers."""
        return [each.pid for each in self._servers]

    async def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End all processes that still run.

        Args:
            how: a signal that a server obeys within `END_SECONDS`, with its children.
        """
        for each in (*self._helpers, *self._servers):
            each.send_signal(how)
        for each in (*self._helpers, *self._servers):
            await asyncio.to_thread(_wait, each)


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
