"""The end of a log, as Kafka's clients are told: after all acknowledged records."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

import quire
from quire.errors import UnreadableError
from quire.gateway.kafka import offsets
from quire.log.reading.search import LogEnd
from quire.testing.cluster import MemoryCluster
from tests.gateway.kafka.frames import sent
from tests.gateway.kafka.test_clients import serving

pytestmark = pytest.mark.real_time

LIST_OFFSETS = 2
LOG = "a"


async def end_of(address: str) -> tuple[ErrorCode, int]:
    """The code and the offset of an answer to the question for the latest offset."""
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": offsets.LATEST}
    fields: dict[str, Any] = {"replica_id": -1, "topics": [{"name": LOG, "partitions": [part]}]}
    ((topic,)) = (await sent(address, LIST_OFFSETS, 1, fields)).topics
    (found,) = topic.partitions
    return found.error_code, found.offset


@pytest.mark.parametrize(("writer", "offset"), [("lives", 3), ("is gone", 2), ("is silent", 2)])
async def test_the_end_is_after_all_acknowledged_records_if_that_is_decided(
    writer: str, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MemoryCluster() as made:
        async with quire.connect(made.store_uri) as client, serving(client) as address:
            async with await client.open_log(LOG) as log:
                await log.append_many([b"x", b"y", b"z"])
            look = client.log_end

            async def late(name: str, *, linearizable: bool = False) -> LogEnd:
                found = await look(name)
                if not linearizable:
                    return found._replace(offset=found.offset - 1)
                if writer == "is gone":
                    raise UnreadableError(0, 2, "its writer is silent")
                if writer == "is silent":
                    await asyncio.Event().wait()
                return found

            monkeypatch.setattr(offsets, "END_SECONDS", 0.01)
            monkeypatch.setattr(client, "log_end", late)
            assert await end_of(address) == (ErrorCode.none, offset)
