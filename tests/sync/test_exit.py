"""The blocking API in threads that outlive the main thread."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.command import SECONDS_MAX, environment

PROGRAM = """
import asyncio, sys, threading, quire.sync
from quire.metastore import create_store

def work():
    with quire.sync.connect(sys.argv[1]) as early:
        threading.main_thread().join()
        with quire.sync.connect(sys.argv[1]) as late, late.election("office").lead() as leadership:
            print(early.list_logs(), leadership.epoch, leadership.is_lost)

async def make():
    await (await create_store(sys.argv[1])).close()

asyncio.run(make())
threading.Thread(target=work).start()
"""


def test_a_thread_works_on_when_the_main_thread_has_ended(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"sqlite://{tmp_path}/metadata.db"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=SECONDS_MAX,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[] 1 False\n", "")
