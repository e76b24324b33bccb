"""Requests about the offsets of a topic, by frames that no client library sends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

import quire
from quire.gateway.kafka import offsets
from tests.gateway.kafka.frames import sent
from tests.gateway.kafka.test_clients import LOG, cluster, serving

pytestmark = pytest.mark.real_time


async def test_of_a_partition_that_is_named_twice_the_second_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up: list[str] = []
    look_up = offsets._look_up

    async def counting(broker: Any, name: str, time_ms: int) -> tuple[int, int]:
        looked_up.append(name)
        return await look_up(broker, name, time_ms)

    monkeypatch.setattr(offsets, "_look_up", counting)
    async with cluster() as client, serving(client) as address:
        await _fill(client)
        asked = {"partition_index": 0, "timestamp": 1}
        topic = {"name": LOG, "partitions": [asked] * 3}
        found = await sent(address, 2, 1, {"replica_id": -1, "topics": [topic, topic]})
        assert looked_up == [LOG]
        codes = [each.error_code for topic in found.topics for each in topic.partitions]
        assert codes == [ErrorCode.none] + [ErrorCode.invalid_request] * 5


async def test_of_a_partition_that_is_trimmed_twice_the_first_counts() -> None:
    async with cluster() as client, serving(client) as address:
        await _fill(client)
        asked = [{"partition_index": 0, "offset": offset} for offset in (1, 2)]
        topics = [{"name": LOG, "partitions": asked}]
        fields = {"topics": topics, "timeout": timedelta(seconds=5)}
        (topic,) = (await sent(address, 21, 0, fields)).topics
        assert [each.error_code for each in topic.partitions] == [
            ErrorCode.none,
            ErrorCode.invalid_request,
        ]
        assert [each.offset async for each in client.read_log(LOG)] == [1, 2]


async def _fill(client: quire.Client) -> None:
    async with await client.open_log(LOG) as log:
        await log.append_many([b"a", b"b", b"c"])
