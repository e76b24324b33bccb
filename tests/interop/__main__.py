"""`python -m tests.interop`: the matrix of versions, storages and runs, then rounds of failures.

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
from pathlib import Path

import quire
from quire.ledger.options import LedgerOptions
from tests.interop.jars import CACHE, NEWEST, install
from tests.interop.programs import PROGRAMS
from tests.interop.runs import JAVA_NAMES, RUNS, Scene, failure_round
from tests.interop.servers import STORAGES, ApacheServers, JavaClient

VERSIONS = (NEWEST, "4.16.6")


async def over(servers: ApacheServers, protocol: str, rounds: int, seed: int) -> int:
    failed = 0
    rng = random.Random(seed)
    java = await asyncio.to_thread(JavaClient, servers, protocol)
    options = LedgerOptions(request_timeout=2.0)
    try:
        async with quire.connect(servers.writable_uri, options=options) as client:
            for number, digest in enumerate(JAVA_NAMES):
                password = ("", "pw")[number % 2]
                scene = Scene(servers, client, java, digest, password, rng, protocol)
                for name, run in RUNS.items():
                    failed += not await _told(f"{name} {digest} {password!r}", run(scene))
            for name, program in PROGRAMS.items():
                failed += not await _told(name, program(scene))
            for number in range(rounds):
                digest = rng.choice(list(JAVA_NAMES))
                scene = Scene(servers, client, java, digest, "pw", rng, protocol)
                failed += not await _told(f"round {number}", failure_round(scene))
    finally:
        await asyncio.to_thread(java.close)
    return failed


async def _told(name: str, run: object) -> bool:
    began = time.monotonic()
    try:
        async with asyncio.timeout(120):
            said = await run  # type: ignore[misc]
    except Exception as error:
        print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)
        return False
    print(f"ok {time.monotonic() - began:5.1f} s  {name}{f': {said}' if said else ''}", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop", description=__doc__)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--versions", nargs="+", default=list(VERSIONS))
    parser.add_argument("--storages", nargs="+", default=list(STORAGES), choices=list(STORAGES))
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
                with ApacheServers(directory / "cluster", jars, storage) as servers:
                    failed += asyncio.run(over(servers, protocol, options.rounds, options.seed))
            finally:
                shutil.rmtree(directory, ignore_errors=True)
    print(f"{failed} failed" if failed else "all runs passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
