"""Kafka's own console tools and Java client, from its published jars, in front of a gateway."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from quire.cluster.zookeeper.java import find_java
from tests.gateway.kafka.test_clients import cluster, serving
from tests.interop.jars import install_kafka

pytestmark = pytest.mark.real_time

TOOLS = "org.apache.kafka.tools"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"
SECONDS_MAX = 60.0


async def run(address: str, tool: str, *arguments: str, given: str = "") -> str:
    """The output of a tool. Fails if the tool says that it failed."""
    quick = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    jars = await asyncio.to_thread(install_kafka)
    command = (find_java(), *quick, "-cp", f"{jars}/*", tool, *arguments)
    if "--producer-props" not in arguments:
        command += ("--bootstrap-server", address)
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(SECONDS_MAX):
            out, _ = await process.communicate(given.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    said = out.decode()
    assert process.returncode == 0, said
    assert "Exception" not in said, said
    return said


async def test_topics_are_made_listed_described_and_deleted() -> None:
    async with cluster() as client, serving(client) as address:
        topics = f"{TOOLS}.TopicCommand"
        await run(
            address, topics, "--create", "--topic", "orders", "--config", "retention.ms=60000"
        )
        assert "orders" in (await run(address, topics, "--list")).splitlines()
        described = await run(address, topics, "--describe", "--topic", "orders")
        assert re.search(r"PartitionCount: 1\b.*retention.ms=60000", described)
        await run(address, topics, "--delete", "--topic", "orders")
        assert await client.list_logs() == []


async def test_a_producer_a_group_and_the_reset_of_its_offsets() -> None:
    async with cluster() as client, serving(client) as address:
        keys = ("--property", "parse.key=true", "--property", "key.separator=:")
        lines = "".join(f"k{number}:v{number}\n" for number in range(5))
        producer = ("--topic", "orders", *keys)
        await run(address, "kafka.tools.ConsoleProducer", *producer, given=lines)
        shown = ("--property", "print.key=true", "--property", "print.offset=true")
        five = ("--topic", "orders", "--from-beginning", "--max-messages", "5")
        read = await run(address, CONSUMER, *five, "--group", "billing", *shown)
        for number in range(5):
            assert f"Offset:{number}\tk{number}\tv{number}" in read
        assert "billing" in (await run(address, GROUPS, "--list")).splitlines()
        described = await run(address, GROUPS, "--describe", "--group", "billing")
        assert re.search(r"billing +orders +0 +5 +5 +0 ", described), described
        reset = ("--reset-offsets", "--to-offset", "2", "--execute", "--topic", "orders")
        await run(address, GROUPS, *reset, "--group", "billing")
        cursor = await client.log_cursors("orders").find("billing")
        assert await cursor.offset() == 2


async def test_the_performance_tool_writes_each_record_once() -> None:
    async with cluster() as client, serving(client) as address:
        properties = ("--producer-props", f"bootstrap.servers={address}", "enable.idempotence=true")
        size = ("--num-records", "2000", "--record-size", "100", "--throughput", "-1")
        tool = f"{TOOLS}.ProducerPerformance"
        said = await run(address, tool, "--topic", "perf", *size, *properties)
        assert "2000 records sent" in said
        assert (await client.log_end("perf", linearizable=True)).offset == 2000


async def test_options_change_and_records_offsets_and_groups_are_deleted(tmp_path: Path) -> None:
    async with cluster() as client, serving(client, seconds=5 * SECONDS_MAX) as address:
        async with await client.open_log("orders") as log:
            await log.append_many([b"%d" % number for number in range(5)])
        topic = ("--entity-type", "topics", "--entity-name", "orders")
        change = ("--alter", "--add-config", "retention.ms=60000", *topic)
        await run(address, "kafka.admin.ConfigCommand", *change)
        assert dict((await client.log_info("orders")).options) == {"retention_seconds": "60.0"}
        described = await run(address, "kafka.admin.ConfigCommand", "--describe", *topic)
        assert "retention.ms=60000" in described
        places = {"partitions": [{"topic": "orders", "partition": 0, "offset": 3}], "version": 1}
        file = tmp_path / "places.json"
        file.write_text(json.dumps(places))
        wanted = ("--offset-json-file", str(file))
        said = await run(address, f"{TOOLS}.DeleteRecordsCommand", *wanted)
        assert re.search(r"orders-0\s+low_watermark: 3", said), said
        read = ("--topic", "orders", "--from-beginning", "--max-messages", "2")
        for group in ("billing", "audit"):
            await run(address, CONSUMER, *read, "--group", group)
        await run(address, GROUPS, "--delete-offsets", "--group", "billing", "--topic", "orders")
        cursors = client.log_cursors("orders")
        assert [each.name for each in await cursors.list()] == ["audit"]
        await run(address, GROUPS, "--delete", "--group", "audit")
        assert await cursors.list() == []
        assert "audit" not in await run(address, GROUPS, "--list")
