"""Leaders with a wall clock that is years off, as processes of their own among real bookies.

The wall clock of a process is what `quire.connection` takes for it; the clock of the machine is
right. (A wrong `time.time` would also move the deadlines of gRPC, whose core has the right time.)
Retention by age deletes nothing early, works once clocks are right again, and a reader that begins
at a time finds what was written after it (docs/decisions/0025-counted-time.md).
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import quire
from quire import LogOptions
from quire.cluster import LocalCluster
from tests.support.command import SECONDS_MAX, environment

YEARS_SECONDS = 10 * 365 * 86_400
BRIEF, KEPT = "brief", "kept"
RETENTION_SECONDS = {BRIEF: 1, KEPT: 86_400}

LEADER = """
import asyncio, sys, time, types

import quire, quire.connection

store, off, payload, *names = sys.argv[1:]
quire.connection.time = types.SimpleNamespace(time=lambda: time.time() + float(off))

async def main():
    async with quire.connect(store) as client:
        for name in names:
            log = await client.open_log(name)
            await log.append(payload.encode())
            await log.close()

asyncio.run(main())
"""


async def lead(store: str, payload: str, off: int = 0) -> None:
    """Append a record to both logs, in a process whose wall clock is off by so many seconds."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", LEADER, store, str(off), payload, *RETENTION_SECONDS],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr


async def payloads(client: quire.Client, name: str, start: datetime | None = None) -> list[bytes]:
    if start is None:
        return [record.payload async for record in client.read_log(name)]
    return [record.payload async for record in client.read_log(name, start)]


async def trims(client: quire.Client, name: str, last: bytes) -> None:
    """Lead a log with right clocks until retention has left nothing before a record."""
    log = await client.open_log(name, LogOptions(retention_interval=0.1))
    await log.append(last)
    async with aclosing(client.watch_log(name)) as changes:
        async for manifest in changes:
            if len(manifest.segments) == 1:
                break
    await log.close()
    assert await payloads(client, name) == [last]


def test_wrong_clocks_of_leaders_delete_nothing_early_and_stop_no_retention(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with LocalCluster(tmp_path / "data", 3) as cluster:
            store = cluster.store_uri
            async with quire.connect(store) as client:
                for name, seconds in RETENTION_SECONDS.items():
                    await client.create_log(name, {"retention_seconds": str(seconds)})
                await lead(store, "before")
                await lead(store, "years ahead", YEARS_SECONDS)
                await lead(store, "years late", -YEARS_SECONDS)
                moment = datetime.now(UTC)
                await lead(store, "after")
                written = [b"before", b"years ahead", b"years late", b"after"]
                assert await payloads(client, KEPT) == written
                years = [
                    round((record.timestamp_ms / 1000 - time.time()) / YEARS_SECONDS)
                    async for record in client.read_log(KEPT)
                ]
                assert years == [0, 1, -1, 0], "in tens: the leaders' clocks were wrong"
                assert (await payloads(client, KEPT, moment))[-1:] == [b"after"]
                await trims(client, BRIEF, b"last")
                assert await payloads(client, KEPT) == written

    async def bounded() -> None:
        async with asyncio.timeout(2 * SECONDS_MAX):
            await main()

    asyncio.run(bounded())
