"""quire and Apache's own client on Apache's bookies: the smallest part of `make interop`.

Each writes, follows, reads, fences and recovers ledgers of the other, on one version.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import quire
from quire.entry import DigestKind
from quire.ledger.options import LedgerOptions
from tests.interop.jars import JarsMissingError, install
from tests.interop.runs import (
    Scene,
    all_writable,
    closed_ledgers_are_read_by_batches,
    java_fences_quire,
    java_writes_quire_follows,
    quire_fences_java,
    quire_writes_java_reads,
)
from tests.interop.servers import ApacheServers, JavaClient

BOOKIES = 3
RUN_SECONDS = 60.0
REQUEST_SECONDS = 30
"""Three bookies without a spare: a slow answer must not count as a lost bookie."""
RUNS = (
    java_writes_quire_follows,
    quire_fences_java,
    quire_writes_java_reads,
    java_fences_quire,
    closed_ledgers_are_read_by_batches,
)


@pytest.mark.timeout(900)  # the first time the jars are downloaded
def test_both_clients_use_the_ledgers_of_each_other(tmp_path: Path) -> None:
    async def main(servers: ApacheServers) -> None:
        options = LedgerOptions(request_timeout=REQUEST_SECONDS)
        async with quire.connect(servers.writable_uri, options=options, timeout=30) as client:
            await all_writable(servers, client)
            java = await asyncio.to_thread(JavaClient, servers, "v3", REQUEST_SECONDS)
            try:
                scene = Scene(
                    servers, client, java, DigestKind.CRC32C, "pw", random.Random(0), "v3"
                )
                for run in RUNS:
                    async with asyncio.timeout(RUN_SECONDS):
                        await run(scene)
            finally:
                await asyncio.to_thread(java.close)

    with ApacheServers(tmp_path, install(), "db", BOOKIES) as servers:
        asyncio.run(main(servers))


def test_missing_jars_are_an_error_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ivy as on a machine without Maven Central: tests that need the jars fail, and say why."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho '::  UNRESOLVED DEPENDENCIES  ::' >&2\n")
    java.chmod(0o755)
    monkeypatch.setattr("tests.interop.jars.find_java", lambda: java)
    with pytest.raises(JarsMissingError, match=r"need Maven Central(.|\n)*UNRESOLVED"):
        install("4.18.0", tmp_path / "cache")
    with pytest.raises(JarsMissingError):  # again: half an installation does not count
        install("4.18.0", tmp_path / "cache")
