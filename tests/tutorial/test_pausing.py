"""A paused process holds no other up: it is not left paused with the store's lock."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from quire.metastore import create_store
from tests.support.threads import thread_states
from tutorial.pausing import pause

HOLDER = """
import signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
signal.signal(signal.SIGCONT, lambda *_: db.execute("COMMIT"))
db.execute("BEGIN IMMEDIATE")
print("holds", flush=True)
while True:
    signal.pause()
"""


BUSY = """
import threading

def work():
    while True:
        sum(range(1000))

for _ in range(8):
    threading.Thread(target=work).start()
print("works", flush=True)
"""


def test_a_process_that_holds_the_lock_is_woken_and_paused_again(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "metadata.db"
        uri = f"sqlite://{path}"
        store = await create_store(uri)
        await store.create("/a", b"")
        holder = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", HOLDER, str(path)), stdout=asyncio.subprocess.PIPE
        )
        try:
            assert holder.stdout is not None
            await holder.stdout.readline()
            waiting = asyncio.create_task(store.create("/b", b""))
            await pause(holder, uri)
            assert thread_states(holder.pid) == {"T"}
            await waiting
        finally:
            holder.kill()
            await holder.wait()
            await store.close()

    asyncio.run(main())


def test_a_paused_process_stands_still() -> None:
    async def main() -> None:
        busy = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", BUSY), stdout=asyncio.subprocess.PIPE
        )
        try:
            assert busy.stdout is not None
            await busy.stdout.readline()
            for _ in range(30):
                await pause(busy, "zk://127.0.0.1:2181/")
                assert thread_states(busy.pid) == {"T"}
                await pause(busy, "zk://127.0.0.1:2181/")  # it is paused already
                busy.send_signal(signal.SIGCONT)
        finally:
            busy.kill()
            await busy.wait()

    asyncio.run(main())


def test_a_process_that_has_ended_is_not_paused() -> None:
    async def main() -> None:
        ended = await asyncio.create_subprocess_exec("true")
        await ended.wait()
        with pytest.raises(ProcessLookupError):
            await pause(ended, "zk://127.0.0.1:2181/")

    asyncio.run(main())
