"""Pausing a process without stopping everybody.

A process that is stopped inside a transaction of the embedded store keeps the lock, and nobody can
change anything until it goes on (docs/decisions/0007-sqlite-for-one-machine.md). That is not what a
paused leader is to show: it is woken and paused again.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import Final

from quire.errors import NoSuchNodeError, QuireError
from quire.metastore import open_store

TRIES_MAX: Final = 10
PATH: Final = "/pausing"


async def pause(process: asyncio.subprocess.Process, store_uri: str) -> None:
    """Send SIGSTOP at a moment in which the process holds no lock of the store."""
    if not store_uri.startswith("sqlite:"):
        process.send_signal(signal.SIGSTOP)  # the others have no lock that a client could keep
        return
    for _ in range(TRIES_MAX):
        process.send_signal(signal.SIGSTOP)
        if await _takes_changes(store_uri):
            return
        process.send_signal(signal.SIGCONT)
        await asyncio.sleep(0.1)
    raise TimeoutError(f"process {process.pid} held the lock of {store_uri} whenever it was paused")


async def _takes_changes(store_uri: str) -> bool:
    try:
        store = await open_store(store_uri)
    except QuireError:
        return False
    try:
        with suppress(NoSuchNodeError):
            await store.delete(PATH)  # of an attempt that was given up
        await store.create(PATH, b"")
        await store.delete(PATH)
    except QuireError:
        return False
    finally:
        await store.close()
    return True
