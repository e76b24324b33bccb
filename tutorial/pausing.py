"""Pausing a process without stopping all others.

A process that is stopped inside a transaction of the embedded store keeps the lock, and no other
process can change anything until it goes on (docs/decisions/0007-sqlite-for-one-machine.md). That
is not what a paused leader is to show: it is woken and paused again, before the others give up.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from contextlib import closing
from typing import Final

TRIES_MAX: Final = 30
PATIENCE_SECONDS: Final = 0.5
"""Others give up waiting for the lock after five seconds."""
SCHEME: Final = "sqlite://"


async def pause(process: asyncio.subprocess.Process, store_uri: str) -> None:
    """Send SIGSTOP at a moment in which the process holds no lock of the store."""
    if not store_uri.startswith(SCHEME):
        process.send_signal(signal.SIGSTOP)  # the others have no lock that a client could keep
        return
    for _ in range(TRIES_MAX):
        process.send_signal(signal.SIGSTOP)
        if await asyncio.to_thread(_takes_changes, store_uri.removeprefix(SCHEME)):
            return
        process.send_signal(signal.SIGCONT)
        await asyncio.sleep(0.1)
    raise TimeoutError(f"process {process.pid} held the lock of {store_uri} whenever it was paused")


def _takes_changes(path: str) -> bool:
    """Whether a transaction can begin. It changes nothing."""
    with closing(sqlite3.connect(path, timeout=PATIENCE_SECONDS, isolation_level=None)) as store:
        try:
            store.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        store.execute("ROLLBACK")
        return True
