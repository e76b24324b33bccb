"""Topics that Apache Pulsar's own managed ledgers wrote to Apache's bookies, read by quire."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

import quire
from quire.bookkeeper.pulsar.topic import read_topic
from tests.interop.jars import install, install_pulsar, program
from tests.interop.servers import ApacheServers
from tests.support.command import quire as run_quire
from tests.support.pulsar import ENTRIES, FILE, PAYLOADS

SOURCE = Path(__file__).parents[1] / "interop" / "Topics.java"
RUN_SECONDS = 120


def make_topics(servers: ApacheServers) -> str:
    """Let Java write both topics; return what it printed."""
    here = ApacheServers(servers.directory, install_pulsar(), "db", 0)
    place = f"127.0.0.1:{servers.port}"
    command = here.java(*program(SOURCE), place)
    log = servers.directory / "topics.log"
    with log.open("wb") as errors:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=errors, timeout=RUN_SECONDS, text=True
        )
    assert done.returncode == 0, log.read_text()
    return done.stdout


@pytest.mark.timeout(900)  # the first time the jars are downloaded
def test_topics_of_pulsar_are_read(tmp_path: Path) -> None:
    async def main(uri: str) -> None:
        async with quire.connect(uri, timeout=30) as client:
            closed = [each async for each in read_topic(client, "closed")]
            assert [each.payload for each in closed] == PAYLOADS
            assert len({each.id.ledger for each in closed}) > 1, "a list of several ledgers"
            began = [each async for each in read_topic(client, "closed", start=closed[3].id)]
            assert began == closed[3:]
            still_open = [each.payload async for each in read_topic(client, "a+b")]
            assert still_open == PAYLOADS[: len(still_open)]
            assert len(still_open) >= len(PAYLOADS) - 1, "the last entry may not be confirmed"

    with ApacheServers(tmp_path, install(), "db", 3) as servers:
        printed = make_topics(servers)
        golden = FILE.read_text().splitlines()
        assert [line for line in printed.splitlines() if line.split(" ")[0] in ENTRIES] == golden
        asyncio.run(main(servers.uri))
        words = ("pulsar", "cat", "closed", "--limit", "2", "--json")
        done = run_quire("--store", servers.uri, *words)
        first, second = (json.loads(row) for row in done.out.splitlines())
        assert (first["key"], second["key_base64"]) == ("k1", "/wA=")
