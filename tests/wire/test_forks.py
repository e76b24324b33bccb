"""Processes that are forked while calls are under way begin, whatever gRPC thinks of forks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import asyncio, subprocess, threading
from quire.bookie import BookieAddress
from quire.ledger.remote import RemoteBookie
from quire.storage.serving.grpc_service import serve_bookie
from quire.testing.bookie import MemoryBookie

BOOKIE = "b" * 32
over, called = threading.Event(), threading.Event()

async def call():
    async with serve_bookie(MemoryBookie(BOOKIE), BOOKIE) as address:
        bookie = RemoteBookie(address)
        while not over.is_set():
            await bookie.info()
            called.set()
        await bookie.close()

threads = [threading.Thread(target=asyncio.run, args=(call(),)) for _ in range(2)]
for thread in threads:
    thread.start()
called.wait()
ends = [
    subprocess.Popen(["true"], preexec_fn=lambda: None).wait() for _ in range(200)
]
over.set()
for thread in threads:
    thread.join()
print("bad ends:", sorted(set(ends) - {0}))
"""


def test_a_process_that_is_started_beside_calls_begins() -> None:
    """Spark's JVM died so now and then."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("GRPC_ENABLE_FORK_SUPPORT", None)
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.stdout == "bad ends: []\n", ended.stderr
