"""Records that cannot be read for a moment: consumers ask again or wait, and go on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

import quire
from quire.errors import (
    ConflictError,
    DecryptionError,
    NoSuchLogError,
    QuireError,
    StoreUnavailableError,
    UnreadableError,
)
from quire.log.reading.search import LogEnd
from quire.testing.cluster import MemoryCluster
from tests.gateway.kafka.frames import sent
from tests.gateway.kafka.test_clients import serving

pytestmark = pytest.mark.real_time

FETCH = 1
LOG = "a"


async def fetched(
    address: str, offset: int = 0, wait: timedelta = timedelta(0)
) -> tuple[ErrorCode, int | None]:
    """The code of an answer, and the offset of its first record, None without any."""
    part = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": offset}
    part |= {"last_fetched_epoch": -1, "log_start_offset": -1, "partition_max_bytes": 1000}
    fields: dict[str, Any] = {"max_wait": wait, "min_bytes": 1, "max_bytes": 1000}
    fields |= {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"topic": LOG, "partitions": [part]}],
    }
    ((topic,)) = (await sent(address, FETCH, 4, fields)).responses
    (found,) = topic.partitions
    return found.error_code, int.from_bytes(found.records[:8]) if found.records else None


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreUnavailableError("the store", "away"), ErrorCode.not_leader_or_follower),
        (UnreadableError(7, 0, "bookies are away"), ErrorCode.not_leader_or_follower),
        (NoSuchLogError(LOG), ErrorCode.unknown_topic_or_partition),
        (ConflictError("changed meanwhile"), ErrorCode.unknown_server_error),
        (DecryptionError(LOG, "1.0.0", "k", "no key"), ErrorCode.unknown_server_error),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, QuireError) else "",
)
async def test_a_consumer_is_told_what_it_may_be_told_in_answer_to_a_fetch(
    error: QuireError, code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(name: str) -> Any:
        raise error

    with MemoryCluster() as made:
        async with quire.connect(made.store_uri) as client:
            async with await client.open_log(LOG) as log:
                await log.append(b"x")
            async with serving(client) as address:
                with monkeypatch.context() as patched:
                    patched.setattr(client, "log_end", away)
                    assert await fetched(address) == (code, None)
                assert await fetched(address) == (ErrorCode.none, 0)


async def test_a_consumer_goes_on_after_a_record_that_is_not_announced_here_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with MemoryCluster() as made:
        async with (
            quire.connect(made.store_uri) as client,
            serving(client) as address,
            await client.open_log(LOG) as log,
        ):
            await log.append(b"x")
            look = client.log_end

            async def late(name: str, *, linearizable: bool = False) -> LogEnd:
                found = await look(name, linearizable=True)
                return found if linearizable else found._replace(offset=found.offset - 1)

            monkeypatch.setattr(client, "log_end", late)
            assert await fetched(address, 1) == (ErrorCode.none, None)
            assert await fetched(address, 2) == (ErrorCode.offset_out_of_range, None)
            await log.append(b"y")
            soon = timedelta(seconds=20)
            assert await fetched(address, 1, soon) == (ErrorCode.none, 1)
