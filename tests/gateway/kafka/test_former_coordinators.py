"""A gateway that is paused while it changes a group's offsets, and is not the coordinator any more
when it goes on, changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

import quire
from quire.metastore.changes import Change
from quire.metastore.layout import cursor_path, election_candidates_path
from quire.metastore.store import MetadataStore
from quire.testing.cluster import MemoryCluster
from tests.gateway.kafka.frames import sent
from tests.gateway.kafka.test_clients import serving

pytestmark = pytest.mark.real_time

GROUP = "g"
LOG = "a"
ELECTION = f"kafka-group/{GROUP}"
CURSOR = cursor_path(LOG, GROUP)
FIND, COMMIT, DELETE_GROUPS, DELETE_OFFSETS = 10, 8, 42, 47


class Paused:
    """Holds a client's changes of the cursor after it asked for them, until the test goes on."""

    def __init__(self, store: MetadataStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = asyncio.Event()
        self.goes_on = asyncio.Event()
        self._commit = store.commit
        monkeypatch.setattr(store, "commit", self._held)

    async def _held(self, changes: Sequence[Change]) -> dict[str, int]:
        if any(each.path == CURSOR for each in changes):
            self.reached.set()
            await self.goes_on.wait()
        return await self._commit(changes)


class Pair:
    """Two gateways: the first coordinates the group."""

    def __init__(self, clients: list[quire.Client], addresses: list[str]) -> None:
        self.client = clients[1]
        self.first, self.second = addresses
        self.store = clients[0]._store

    async def replace_coordinator(self) -> None:
        """Remove the first one's place in the queue, and have the second one coordinate."""
        queue = election_candidates_path(ELECTION)
        (place,) = await self.client._store.children(queue)
        await self.client._store.delete(f"{queue}/{place}")
        port = int(self.second.rpartition(":")[2])
        while (await found(self.second)).port != port:
            pass  # the second one stands, and is elected

    async def offset(self) -> int | None:
        cursors = {each.name: each for each in await self.client.log_cursors(LOG).list()}
        if GROUP not in cursors:
            return None
        return await (await self.client.log_cursors(LOG).find(GROUP)).offset()


@asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    with MemoryCluster() as made:
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(quire.connect(made.store_uri)) for _ in range(2)
            ]
            async with await clients[0].open_log(LOG) as log:
                await log.append_many([b"%d" % number for number in range(10)])
            addresses = [await stack.enter_async_context(serving(each)) for each in clients]
            await found(addresses[0])
            yield Pair(clients, addresses)


async def found(address: str) -> Any:
    """Ask a gateway for the group's coordinator."""
    return await sent(address, FIND, 1, {"key": GROUP, "key_type": 0})


async def commit(address: str, offset: int) -> ErrorCode:
    part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    fields: dict[str, Any] = {"group_id": GROUP, "generation_id_or_member_epoch": -1}
    fields |= {"member_id": "", "topics": [{"name": LOG, "partitions": [part]}]}
    (topic,) = (await sent(address, COMMIT, 5, fields)).topics
    (answer,) = topic.partitions
    code: ErrorCode = answer.error_code
    return code


async def delete_group(address: str) -> ErrorCode:
    (result,) = (await sent(address, DELETE_GROUPS, 0, {"groups_names": [GROUP]})).results
    code: ErrorCode = result.error_code
    return code


async def delete_offset(address: str) -> ErrorCode:
    topics = [{"name": LOG, "partitions": [{"partition_index": 0}]}]
    (topic,) = (
        await sent(address, DELETE_OFFSETS, 0, {"group_id": GROUP, "topics": topics})
    ).topics
    (answer,) = topic.partitions
    code: ErrorCode = answer.error_code
    return code


CHANGES: Mapping[str, tuple[int | None, Any, int]] = {
    "deletes the group": (3, delete_group, 5),
    "deletes an offset": (3, delete_offset, 5),
    "goes forward": (3, lambda address: commit(address, 9), 5),
    "goes back": (3, lambda address: commit(address, 1), 5),
    "begins": (None, lambda address: commit(address, 9), 5),
}
"""What the former coordinator does: the offset before, the request, the new one's commit."""


@pytest.mark.parametrize(("before", "request_", "after"), CHANGES.values(), ids=CHANGES)
async def test_it_changes_no_offset(
    before: int | None, request_: Any, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair() as two:
        if before is not None:
            assert await commit(two.first, before) is ErrorCode.none
        paused = Paused(two.store, monkeypatch)
        late = asyncio.create_task(request_(two.first))
        await paused.reached.wait()
        await two.replace_coordinator()
        assert await commit(two.second, after) is ErrorCode.none
        paused.goes_on.set()
        assert await late is ErrorCode.not_coordinator
        assert await two.offset() == after


@pytest.mark.parametrize(("before", "request_", "_"), CHANGES.values(), ids=CHANGES)
async def test_it_changes_nothing_before_the_new_one_has_acted(
    before: int | None, request_: Any, _: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair() as two:
        if before is not None:
            assert await commit(two.first, before) is ErrorCode.none
        paused = Paused(two.store, monkeypatch)
        late = asyncio.create_task(request_(two.first))
        await paused.reached.wait()
        await two.replace_coordinator()
        paused.goes_on.set()
        assert await late is ErrorCode.not_coordinator
        assert await two.offset() == before
