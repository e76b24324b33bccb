"""Pausing a process without stopping all others.

A process that is stopped inside a transaction of the embedded store keeps the lock, and no other
process can change anything until it goes on (docs/decisions/0007-sqlite-for-one-machine.md). That
is not what a paused leader is to show: it is woken and paused again, before the others give up.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from contextlib import closing
from typing import Final

TRIES_MAX: Final = 30
PATIENCE_SECONDS: Final = 0.5
"""Others give up waiting for the lock after five seconds."""
SCHEME: Final = "sqlite://"


async def pause(process: asyncio.subprocess.Process, store_uri: str) -> None:
    """Stop a child at a moment in which it holds no lock of the store; return when it stands still.

    Raises `TimeoutError` when it held the lock each time, `ProcessLookupError` when it has ended.
    """
    if not store_uri.startswith(SCHEME):
        await _stop(process)  # the others have no lock that a client could keep
        return
    for _ in range(TRIES_MAX):
        await _stop(process)
        if await asyncio.to_thread(_takes_changes, store_uri.removeprefix(SCHEME)):
            return
        process.send_signal(signal.SIGCONT)
        await asyncio.sleep(0.1)
    raise TimeoutError(f"process {process.pid} held the lock of {store_uri} whenever it was paused")


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Send SIGSTOP, and wait: a thread in a system call ends that first, and may come to hold the
    lock by it.
    """
    process.send_signal(signal.SIGSTOP)
    try:
        await asyncio.to_thread(os.waitid, os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    except ChildProcessError:
        raise ProcessLookupError(f"process {process.pid} has ended") from None


def _takes_changes(path: str) -> bool:
    """Whether a transaction can begin. It changes nothing."""
    with closing(sqlite3.connect(path, timeout=PATIENCE_SECONDS, isolation_level=None)) as store:
        try:
            store.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        store.execute("ROLLBACK")
        return True
