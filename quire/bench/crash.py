"""A leader that crashes: how long a log is without one, the lease that must run out included."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import Final

from quire.client import Client
from quire.election.election import Election

LOG: Final = "bench lease"
LEASE_SECONDS: Final = 2.0
"""How long a leader may be silent before its session is over."""

LEADS: Final = b"leads\n"
"""The output of the leader to be killed (doomed.py) once it leads."""


async def measure_crash(client: Client) -> float:
    """Kill a leader in a process of its own; return the seconds until another leader has appended.

    Raises `RuntimeError` when the process ends before it leads.
    """
    command = (sys.executable, "-m", "quire.bench.doomed", client.store_uri)
    victim = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    try:
        assert victim.stdout is not None
        if await victim.stdout.readline() != LEADS:
            raise RuntimeError(f"the leader to be killed ended with code {await victim.wait()}")
        successor = asyncio.create_task(_succeed(client))
        await asyncio.sleep(LEASE_SECONDS / 2)  # until the candidate is in the queue
        killed = time.perf_counter()
        victim.kill()
        return await successor - killed
    finally:
        if victim.returncode is None:
            victim.kill()
        await victim.wait()


async def _succeed(client: Client) -> float:
    async with (
        stand(client, "successor").lead() as leadership,
        await client.open_log(LOG, is_leader=lambda: not leadership.is_lost) as log,
    ):
        await log.append(b"x")
        return time.perf_counter()


def stand(client: Client, name: str) -> Election:
    """Return a candidate of the election that is measured."""
    return client.election("bench crash", name, session_timeout=LEASE_SECONDS)
