"""Apache's own client on bookies of quire: the smallest part of `make interop` in this direction.

Java and quire write, follow, read, fence and recover ledgers of each other there, over both
protocols.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial
from pathlib import Path

import pytest

import quire
from quire.client import Client
from quire.entry import ENTRY_BYTES_MAX, DigestKind
from quire.ledger.options import LedgerOptions
from tests.interop.jars import install
from tests.interop.quire_servers import QuireServers
from tests.interop.runs import RUNS, Scene, all_writable
from tests.interop.servers import JavaClient, JavaError

RUN_SECONDS = 120.0
REQUEST_SECONDS = 30
"""Three bookies without a spare: a slow answer must not count as a lost bookie."""


async def _a_bookie_moves_to_readonly_and_back(servers: QuireServers, client: Client) -> None:
    """By a wish of an operator. Clients find bookies by ZooKeeper alone."""
    moving = min(servers.bookies)
    for wish in (("away", moving, "--for", "1h", "--anyway"), ("back", moving)):
        await asyncio.to_thread(partial(servers.quire, "bookie", *wish, store=servers.own_uri))
        wanted = {each: wish[0] == "back" or each != moving for each in servers.bookies}
        async with asyncio.timeout(RUN_SECONDS):
            while True:
                if {each.bookie: each.writable for each in client.bookies()} == wanted:
                    break
                await asyncio.sleep(0.1)


async def _an_entry_above_the_limit_is_an_error(scene: Scene) -> None:
    """Java's clients send up to 5 MiB; the bookies refuse it, and serve the next ledger."""
    await scene.java_creates()
    with pytest.raises(JavaError):
        await scene.ask("large", ENTRY_BYTES_MAX + 1000)  # more than any digest leaves
    await scene.ask("abandon")
    ledger = await scene.java_creates()
    await scene.ask("add", 1)
    await scene.ask("close")
    assert await scene.judge(ledger, [b"java-0"]) == 1


@pytest.mark.timeout(900)  # the first time the jars are downloaded
def test_clients_of_java_and_quire_share_ledgers_on_bookies_of_quire(tmp_path: Path) -> None:
    async def main(servers: QuireServers) -> None:
        options, rng = LedgerOptions(request_timeout=REQUEST_SECONDS), random.Random(0)
        async with quire.connect(servers.writable_uri, options=options, timeout=30) as client:
            await all_writable(servers, client)
            await _a_bookie_moves_to_readonly_and_back(servers, client)
            for protocol in ("v3", "v2"):
                java = await asyncio.to_thread(JavaClient, servers, protocol, REQUEST_SECONDS)
                try:
                    scene = Scene(servers, client, java, DigestKind.CRC32C, "pw", rng, protocol)
                    for run in RUNS.values():
                        async with asyncio.timeout(RUN_SECONDS):
                            await run(scene)
                    await _an_entry_above_the_limit_is_an_error(scene)
                finally:
                    await asyncio.to_thread(java.close)

    with QuireServers(tmp_path, install()) as servers:
        asyncio.run(main(servers))
