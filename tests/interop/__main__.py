"""`python -m tests.interop`: the matrix of versions, storages and runs, then rounds of failures.

As a storage, `quire` stands for bookies of quire with clients of that version.

Each cluster runs the programs of the tutorial, too. Jars come from Maven Central into --cache,
about 105 MB for a version (jars.py).
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path

import quire
from quire.entry import DigestKind
from quire.ledger.options import LedgerOptions
from tests.interop.jars import CACHE, NEWEST, install
from tests.interop.programs import PROGRAMS
from tests.interop.quire_servers import QuireServers
from tests.interop.runs import JAVA_NAMES, RUNS, Scene, all_writable, failure_round
from tests.interop.servers import STORAGES, ApacheServers, JavaClient

VERSIONS = (NEWEST, "4.16.6")
RUN_SECONDS = 180.0
QUIRE = "quire"


class Session:
    """Both clients of a cluster while the runs are made, and how many of these failed."""

    def __init__(self, servers: ApacheServers, client: quire.Client, protocol: str) -> None:
        self._servers = servers
        self._client = client
        self._protocol = protocol
        self._java = JavaClient(servers, protocol)
        self.failed = 0

    def scene(self, digest: DigestKind, password: str, rng: random.Random) -> Scene:
        return Scene(self._servers, self._client, self._java, digest, password, rng, self._protocol)

    async def told(self, name: str, run: Awaitable[str | None]) -> None:
        """Make a run. Java's client may be busy with one that failed: a new client goes on."""
        if not await _told(name, run):
            self.failed += 1
            await asyncio.to_thread(self._java.kill)
            self._java = await asyncio.to_thread(JavaClient, self._servers, self._protocol)

    async def close(self) -> None:
        await asyncio.to_thread(self._java.close)


async def over(servers: ApacheServers, protocol: str, rounds: int, seed: int) -> int:
    rng = random.Random(seed)
    options = LedgerOptions(request_timeout=2.0)
    async with quire.connect(servers.writable_uri, options=options, timeout=30) as client:
        await all_writable(servers, client)
        session = await asyncio.to_thread(Session, servers, client, protocol)
        try:
            for number, digest in enumerate(JAVA_NAMES):
                password = ("", "pw")[number % 2]
                for name, run in RUNS.items():
                    made = run(session.scene(digest, password, rng))
                    await session.told(f"{name} {digest} {password!r}", made)
            for name, program in PROGRAMS.items():
                await session.told(name, program(session.scene(digest, password, rng)))
            for number in range(rounds):
                scene = session.scene(rng.choice(list(JAVA_NAMES)), "pw", rng)
                await session.told(f"round {number}", failure_round(scene))
        finally:
            await session.close()
    return session.failed


async def _told(name: str, run: Awaitable[str | None]) -> bool:
    began = time.monotonic()
    try:
        async with asyncio.timeout(RUN_SECONDS):
            said = await run
    except Exception as error:
        print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)
        return False
    print(f"ok {time.monotonic() - began:5.1f} s  {name}{f': {said}' if said else ''}", flush=True)
    return True


def started(directory: Path, jars: Path, storage: str) -> ApacheServers:
    """Return the servers of a cluster, to be entered."""
    if storage == QUIRE:
        return QuireServers(directory, jars, bookies=4)
    return ApacheServers(directory, jars, storage)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop", description=__doc__)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--versions", nargs="+", default=list(VERSIONS))
    kinds = [*STORAGES, QUIRE]
    parser.add_argument("--storages", nargs="+", default=kinds, choices=kinds)
    parser.add_argument("--rounds", type=int, default=10, help="rounds of failures each")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failed = 0
    for number, version in enumerate(options.versions):
        jars = install(version, options.cache.resolve())
        for storage in options.storages:
            protocol = "v2" if number % 2 else "v3"
            directory = Path(tempfile.mkdtemp(prefix="quire-interop-"))
            print(f"Apache BookKeeper {version}, {storage}, Java client {protocol}", flush=True)
            try:
                with started(directory / "cluster", jars, storage) as servers:
                    failed += asyncio.run(over(servers, protocol, options.rounds, options.seed))
            finally:
                shutil.rmtree(directory, ignore_errors=True)
    print(f"{failed} failed" if failed else "all runs passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
