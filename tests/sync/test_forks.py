"""A child that was forked before the first connect connects anew, and so does its parent."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import os, sys
import quire.sync
from quire.metastore import create_store

def elect(name):
    with quire.sync.connect(sys.argv[1]) as client:
        with client.election("fork", name).lead() as leadership:
            print(name, leadership.epoch, flush=True)

import asyncio

async def make():
    await (await create_store(sys.argv[1])).close()

asyncio.run(make())
child = os.fork()
elect("child") if child == 0 else None
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
elect("parent")
"""


def test_a_child_forked_before_the_first_connect_connects_anew(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), f"sqlite://{tmp_path}/metadata.db"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    assert (done.stdout, done.returncode) == ("child 1\nparent 2\n", 0), done.stderr
