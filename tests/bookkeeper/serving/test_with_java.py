"""Apache's own client on bookies of quire: the smallest part of `make interop` in this direction.

Java and quire write, follow, read, fence and recover ledgers of each other there, over both
protocols.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import quire
from quire.entry import DigestKind
from quire.ledger.options import LedgerOptions
from tests.interop.jars import install
from tests.interop.quire_servers import QuireServers
from tests.interop.runs import RUNS, Scene, all_writable
from tests.interop.servers import JavaClient

RUN_SECONDS = 60.0
REQUEST_SECONDS = 30
"""Three bookies without a spare: a slow answer must not count as a lost bookie."""


@pytest.mark.timeout(900)  # the first time the jars are downloaded
def test_clients_of_java_and_quire_share_ledgers_on_bookies_of_quire(tmp_path: Path) -> None:
    async def main(servers: QuireServers) -> None:
        options, rng = LedgerOptions(request_timeout=REQUEST_SECONDS), random.Random(0)
        async with quire.connect(servers.writable_uri, options=options, timeout=30) as client:
            await all_writable(servers, client)
            for protocol in ("v3", "v2"):
                java = await asyncio.to_thread(JavaClient, servers, protocol, REQUEST_SECONDS)
                try:
                    scene = Scene(servers, client, java, DigestKind.CRC32C, "pw", rng, protocol)
                    for run in RUNS.values():
                        async with asyncio.timeout(RUN_SECONDS):
                            await run(scene)
                finally:
                    await asyncio.to_thread(java.close)

    with QuireServers(tmp_path, install()) as servers:
        asyncio.run(main(servers))
