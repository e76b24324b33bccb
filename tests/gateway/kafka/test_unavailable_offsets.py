"""Offsets that cannot be written or read for a moment: clients ask again, and go on."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

import quire
from quire.errors import QuireError, SessionExpiredError, StoreUnavailableError
from quire.metastore.layout import cursor_path
from quire.testing.cluster import MemoryCluster
from tests.gateway.kafka.frames import sent
from tests.gateway.kafka.test_clients import serving

pytestmark = pytest.mark.real_time

COMMIT, READ, FIND = 8, 9, 10
LOG = "a"
GROUP = "g"


async def commit(address: str, offset: int) -> ErrorCode:
    part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    fields: dict[str, Any] = {"group_id": GROUP, "generation_id_or_member_epoch": -1}
    fields |= {"member_id": "", "topics": [{"name": LOG, "partitions": [part]}]}
    (topic,) = (await sent(address, COMMIT, 5, fields)).topics
    code: ErrorCode = topic.partitions[0].error_code
    return code


async def committed(address: str, *, all_topics: bool) -> tuple[ErrorCode, list[Any]]:
    topics = None if all_topics else [{"name": LOG, "partition_indexes": [0]}]
    answer = await sent(address, READ, 5, {"group_id": GROUP, "topics": topics})
    parts = [part for topic in answer.topics for part in topic.partitions]
    return answer.error_code, [(each.committed_offset, each.error_code) for each in parts]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreUnavailableError("the store", "away"), ErrorCode.coordinator_not_available),
        (SessionExpiredError("the session is over"), ErrorCode.not_coordinator),
    ],
)
async def test_clients_are_told_to_ask_again(
    error: QuireError, code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MemoryCluster() as made:
        async with quire.connect(made.store_uri) as client:
            async with await client.open_log(LOG) as log:
                await log.append_many([b"x"] * 10)
            async with serving(client) as address:
                await sent(address, FIND, 1, {"key": GROUP, "key_type": 0})
                assert await commit(address, 3) is ErrorCode.none
                get = client._store.get

                async def away(path: str) -> Any:
                    if path == cursor_path(LOG, GROUP):
                        raise error
                    return await get(path)

                with monkeypatch.context() as patched:
                    patched.setattr(client._store, "get", away)
                    assert await commit(address, 5) is code
                    later = ErrorCode.coordinator_load_in_progress
                    assert await committed(address, all_topics=False) == (later, [(-1, later)])
                    assert await committed(address, all_topics=True) == (later, [])
                none = ErrorCode.none
                assert await commit(address, 5) is none
                assert await committed(address, all_topics=True) == (none, [(5, none)])


async def test_a_deleted_topic_has_no_offset_and_no_error() -> None:
    with MemoryCluster() as made:
        async with quire.connect(made.store_uri) as client:
            async with await client.open_log(LOG) as log:
                await log.append(b"x")
            async with serving(client) as address:
                await sent(address, FIND, 1, {"key": GROUP, "key_type": 0})
                assert await commit(address, 1) is ErrorCode.none
                await client.delete_log(LOG)
                nothing = (ErrorCode.none, [(-1, ErrorCode.none)])
                assert await committed(address, all_topics=False) == nothing
