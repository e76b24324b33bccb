"""What a server tells systemd: ready, its stage, its pulse (sd_notify, `Type=notify`).

A unit that is told when the bookie is ready starts what depends on it in time, shows the stage in
`systemctl status`, and restarts a process whose loop no longer turns. Without a service manager
nothing is sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

_log = logging.getLogger(__name__)


class ServiceManager:
    """The manager that started this process, if there is one."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._path = environment.get("NOTIFY_SOCKET", "")
        self.pulse_seconds = _pulse(environment)
        """The longest time between two pulses; None: the manager expects none."""

    def tell(self, **state: str) -> None:
        """Send the state, such as `STATUS="serves"`. A manager that is gone changes nothing."""
        if not self._path:
            return
        address = "\0" + self._path[1:] if self._path.startswith("@") else self._path
        message = "\n".join(f"{name}={' '.join(text.split())}" for name, text in state.items())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)  # a manager that does not read must not stop a bookie
            try:
                sender.sendto(message.encode(), address)
            except OSError as error:
                _log.debug("the service manager was not told: %s", error)

    @asynccontextmanager
    async def pulse(self) -> AsyncIterator[None]:
        """Show that the loop turns while the block runs, twice as often as the manager expects."""
        if not self._path or self.pulse_seconds is None:
            yield
            return
        beating = asyncio.create_task(self._beat(self.pulse_seconds / 2))
        try:
            yield
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating

    async def _beat(self, pause: float) -> None:
        while True:
            self.tell(WATCHDOG="1")
            await asyncio.sleep(pause)


def _pulse(environment: Mapping[str, str]) -> float | None:
    """Return the seconds of `WatchdogSec=`, if they are meant for this process."""
    microseconds = environment.get("WATCHDOG_USEC", "")
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(microseconds) / 1e6 if microseconds.isdigit() and int(microseconds) else None
