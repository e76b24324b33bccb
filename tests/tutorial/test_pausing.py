"""A paused process holds no other up: it is not left paused with the store's lock."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from quire.metastore import create_store
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


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().split()[2]


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
            assert state_of(holder.pid) == "T"
            await waiting
        finally:
            holder.kill()
            await holder.wait()
            await store.close()

    asyncio.run(main())
