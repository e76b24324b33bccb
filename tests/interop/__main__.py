"""`python -m tests.interop`: the matrix of versions, storages and runs, then rounds of failures.

As a storage, `quire` stands for bookies of quire with clients of that version, and `mixed` for two
bookies of each kind. Rounds (rounds.py) are on the first version, and every kind of bookie gets its
share of them: the same numbers for each, so `--storages db --first 17 --rounds 1 --only-rounds`
plays one of them again.

Each cluster runs the programs of the tutorial, too. Jars come from Maven Central into --cache,
about 105 MB for a version (jars.py).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path

import quire
from quire.entry import DigestKind
from quire.ledger.options import LedgerOptions
from tests.interop.jars import CACHE, NEWEST, install
from tests.interop.plan import plan_of
from tests.interop.programs import PROGRAMS
from tests.interop.quire_servers import MixedServers, QuireServers
from tests.interop.rounds import Told, play, summary
from tests.interop.runs import JAVA_NAMES, RUNS, Scene, all_writable
from tests.interop.servers import STORAGES, ApacheServers, JavaClient

VERSIONS = (NEWEST, "4.16.6")
RUN_SECONDS = 600.0
REQUEST_SECONDS = 60
"""No bookie fails while the runs are made: a slow answer must not count as a lost bookie."""
QUIRE = "quire"
MIXED = "mixed"


class Session:
    """Both clients of a cluster while the runs are made, and how many of these failed."""

    def __init__(self, servers: ApacheServers, client: quire.Client, protocol: str) -> None:
        self._servers = servers
        self._client = client
        self._protocol = protocol
        self._java = JavaClient(servers, protocol, REQUEST_SECONDS)
        self.failed = 0

    def scene(self, digest: DigestKind, password: str, rng: random.Random) -> Scene:
        return Scene(self._servers, self._client, self._java, digest, password, rng, self._protocol)

    async def told(self, name: str, run: Awaitable[str | None]) -> None:
        """Make a run. Java's client may be busy with one that failed: a new client goes on."""
        if not await _told(name, run):
            self.failed += 1
            await asyncio.to_thread(self._java.kill)
            self._java = await asyncio.to_thread(
                JavaClient, self._servers, self._protocol, REQUEST_SECONDS
            )

    async def close(self) -> None:
        await asyncio.to_thread(self._java.close)


async def over(servers: ApacheServers, protocol: str, seed: int) -> int:
    rng = random.Random(seed)
    options = LedgerOptions(request_timeout=REQUEST_SECONDS)
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
    if storage == MIXED:
        return MixedServers(directory, jars)
    return ApacheServers(directory, jars, storage)


@contextmanager
def cluster(jars: Path, storage: str) -> Iterator[ApacheServers]:
    directory = Path(tempfile.mkdtemp(prefix="quire-interop-"))
    try:
        with started(directory / "cluster", jars, storage) as servers:
            yield servers
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def matrix(options: argparse.Namespace) -> int:
    """Make the runs of each version and storage; return how many failed."""
    failed = 0
    for number, version in enumerate(options.versions):
        jars = install(version, options.cache.resolve())
        for storage in options.storages:
            protocol = "v2" if number % 2 else "v3"
            print(f"Apache BookKeeper {version}, {storage}, Java client {protocol}", flush=True)
            with cluster(jars, storage) as servers:
                failed += asyncio.run(over(servers, protocol, options.seed))
    return failed


def failures(options: argparse.Namespace) -> list[Told]:
    """Play the rounds, each kind of bookie its share of them."""
    told: list[Told] = []
    jars = install(options.versions[0], options.cache.resolve())
    shares = [0] * len(options.storages)
    for number in range(options.rounds):
        shares[number % len(shares)] += 1
    for storage, share in zip(options.storages, shares, strict=True):
        plans = [plan_of(options.seed, options.first + number) for number in range(share)]
        if plans:
            print(f"{share} rounds on bookies of the kind {storage}", flush=True)
            with cluster(jars, storage) as servers:
                told += asyncio.run(play(servers, storage, plans))
    return told


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop", description=__doc__)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--versions", nargs="+", default=list(VERSIONS))
    kinds = [*STORAGES, QUIRE, MIXED]
    parser.add_argument("--storages", nargs="+", default=kinds, choices=kinds)
    parser.add_argument("--rounds", type=int, default=100, help="rounds of failures, in all")
    parser.add_argument("--first", type=int, default=0, help="number of each kind's first round")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only-rounds", action="store_true", help="leave the matrix out")
    parser.add_argument("--json", type=Path, help="write what the rounds saw to this file")
    options = parser.parse_args()
    failed = 0 if options.only_rounds else matrix(options)
    told = failures(options)
    failed += sum(bool(each.failed) for each in told)
    if options.json is not None:
        rounds = [each.as_dict() for each in told]
        text = json.dumps({"seed": options.seed, "rounds": rounds}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    print(summary(told))
    print(f"{failed} failed" if failed else "all runs passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
