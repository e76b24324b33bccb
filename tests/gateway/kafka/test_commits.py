"""Commits of offsets that wait for one under way are written together, and in order."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from quire.errors import InvalidRequestError, StoreUnavailableError
from quire.gateway.kafka import coordinating
from quire.gateway.kafka.broker import KafkaSession
from quire.gateway.kafka.commits import WRITES_MAX, OffsetCommits
from quire.gateway.kafka.coordinating import Coordinating

SECONDS = 10.0
END = 100


class Store:
    """Takes `SECONDS` for each write."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.under_way = self.most = 0
        self.is_away = False

    async def write(self, offset: int) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(SECONDS)
        finally:
            self.under_way -= 1
        if self.is_away:
            raise StoreUnavailableError("the store", "away")
        if offset > END:
            raise InvalidRequestError(f"{offset} is beyond the end")
        self.offsets.append(offset)


async def begun(commits: OffsetCommits, store: Store, *offsets: int) -> list[asyncio.Task[None]]:
    """Commits that have come, one after the other."""
    return [
        asyncio.ensure_future(commits.commit("g", "orders", each, store.write)) for each in offsets
    ]


async def test_those_that_wait_are_written_with_the_last_offset() -> None:
    commits, store = OffsetCommits(), Store()
    tasks = await begun(commits, store, *range(50))
    before = asyncio.get_running_loop().time()
    await asyncio.gather(*tasks)
    assert store.offsets == [0, 49]
    tasks = await begun(commits, store, 1)
    await asyncio.sleep(SECONDS / 2)
    tasks += await begun(commits, store, 7, 8, 3)
    await tasks[0]
    assert store.offsets == [0, 49, 1]
    await asyncio.gather(*tasks)
    assert store.offsets == [0, 49, 1, 3], "a consumer that went back"
    assert asyncio.get_running_loop().time() - before == pytest.approx(4 * SECONDS)
    assert not commits._places


async def test_an_invalid_later_offset_is_not_the_error_of_an_earlier_one() -> None:
    commits, store = OffsetCommits(), Store()
    tasks = await begun(commits, store, 5, END + 1, 6, END + 2)
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in found] == [
        type(None),
        InvalidRequestError,
        type(None),
        InvalidRequestError,
    ]
    assert store.offsets == [5, 6]


async def test_each_commit_is_tried_when_the_one_before_failed() -> None:
    commits, store = OffsetCommits(), Store()
    store.is_away = True
    tasks = await begun(commits, store, 5, 6)
    with pytest.raises(StoreUnavailableError):
        await tasks[0]
    store.is_away = False
    await tasks[1]
    assert store.offsets == [6]


async def test_a_commit_that_is_given_up_holds_up_no_other() -> None:
    commits, store = OffsetCommits(), Store()
    first, second = await begun(commits, store, 5, 6)
    await asyncio.sleep(SECONDS / 2)
    first.cancel()
    await second
    assert (first.cancelled(), store.offsets) == (True, [6])


async def test_only_so_many_writes_are_under_way() -> None:
    commits, store = OffsetCommits(), Store()
    count = 3 * WRITES_MAX
    await asyncio.gather(
        *(commits.commit("g", f"log-{each}", each, store.write) for each in range(count))
    )
    assert (len(store.offsets), store.most) == (count, WRITES_MAX)


async def test_no_commit_overtakes_one_of_its_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for two topics, and one for the second topic alone."""
    moved: list[tuple[str, int]] = []

    async def move(_: Any, __: Any, log: str, ___: str, offset: int) -> None:
        await asyncio.sleep(SECONDS if log == "slow" else 0)
        moved.append((log, offset))

    def asked(**offsets: int) -> Any:
        topics = [
            SimpleNamespace(
                name=name,
                partitions=[SimpleNamespace(partition_index=0, committed_offset=offset)],
            )
            for name, offset in offsets.items()
        ]
        return SimpleNamespace(group_id="g", topics=topics)

    monkeypatch.setattr(coordinating, "_move", move)
    broker: Any = SimpleNamespace(check=lambda *_: None, client=None)
    led: Any = SimpleNamespace()
    work = Coordinating(SimpleNamespace())  # type: ignore[arg-type]  # no group is asked for
    answers = await asyncio.gather(
        *(
            work._commit_all(broker, KafkaSession(), each, ErrorCode.none, led)
            for each in (asked(slow=5, orders=5), asked(orders=7))
        )
    )
    assert moved == [("orders", 5), ("orders", 7), ("slow", 5)]
    names = [[each["name"] for each in answer] for answer in answers]
    assert names == [["slow", "orders"], ["orders"]]
