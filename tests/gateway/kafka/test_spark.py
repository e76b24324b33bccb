"""Spark's own Kafka source and sink, from their published jars, in front of a gateway."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import quire
from tests.gateway.kafka.spark_job import COPY, LOG, RECORDS
from tests.gateway.kafka.test_clients import cluster, serving
from tests.interop.jars import install_spark_kafka
from tests.support.java import BRISK, java_home

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(600)]

SECONDS_MAX = 500.0

ROOT = Path(__file__).resolve().parents[3]


async def run(address: str, place: Path, *steps: str) -> list[Any]:
    """What each step found, in a process of their own. Fails if one of them fails."""
    jars = await asyncio.to_thread(install_spark_kafka)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.gateway.kafka.spark_job"),
        *(address, str(place / "checkpoint"), ",".join(steps), *map(str, jars)),
        cwd=ROOT,
        env={
            **os.environ,
            **BRISK,
            "JAVA_HOME": str(java_home(place)),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, said.decode()
    found: list[Any] = json.loads(out.decode().splitlines()[-1])
    return found


async def payloads(client: quire.Client, log: str) -> list[tuple[bytes | None, bytes]]:
    return [(record.key, record.payload) async for record in client.read_log(log)]


async def test_spark_writes_reads_and_streams(tmp_path: Path) -> None:
    async with cluster() as client, serving(client, seconds=SECONDS_MAX) as address:
        for log in (LOG, COPY):
            await client.create_log(log)
        first = await run(address, tmp_path, "write", "read", "times", "stream")
        _, read, times, streamed = first
        written = await payloads(client, LOG)
        wanted = [(b"k%d" % (number % 4), b"%d" % number) for number in range(RECORDS)]
        assert sorted(written, key=str) == sorted(wanted, key=str), "each record once"
        assert [offset for offset, _, _ in read] == list(range(RECORDS))
        assert [(key.encode(), value.encode()) for _, key, value in read] == written
        assert times == [RECORDS, 0]
        assert sum(streamed) == RECORDS
        assert await payloads(client, COPY) == written

        _, streamed = await run(address, tmp_path, "write", "stream")
        assert sum(streamed) == RECORDS, "it goes on where the first query ended"
        assert await payloads(client, COPY) == await payloads(client, LOG)
        assert len(await payloads(client, COPY)) == 2 * RECORDS
