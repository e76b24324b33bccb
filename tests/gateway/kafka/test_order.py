"""Order within a topic: a later request never overtakes an earlier one of its client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from quire.gateway.kafka import producing
from quire.gateway.kafka.fetching import READINGS_MAX, fetch


class SlowLogs:
    """Writers of logs; the log `a` is not led yet."""

    def __init__(self) -> None:
        self.appended: list[tuple[str, Any]] = []
        self.is_led = asyncio.Event()

    @asynccontextmanager
    async def writer(self, name: str) -> AsyncIterator[Any]:
        if name == "a":
            await self.is_led.wait()

        async def append_many(records: Any) -> Any:
            self.appended.append((name, records))
            return [SimpleNamespace(offset=len(self.appended))]

        yield SimpleNamespace(append_many=append_many)


def request(**topics: str) -> Any:
    parts = {name: [SimpleNamespace(index=0, records=text)] for name, text in topics.items()}
    data = [SimpleNamespace(name=name, partition_data=found) for name, found in parts.items()]
    return SimpleNamespace(topic_data=data, acks=1)


async def test_a_slow_topic_holds_up_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(data: bytes, _: Any) -> list[Any]:
        return [SimpleNamespace(producer=-1, records=data.decode())]

    monkeypatch.setattr(producing, "decode_batches", decode)
    monkeypatch.setattr(producing, "bytes", lambda text: text.encode(), raising=False)
    logs = SlowLogs()
    broker: Any = SimpleNamespace(owners=logs, check=lambda *_: None, charge=lambda *_: None)
    session: Any = None
    work = producing.Producing()
    first = asyncio.create_task(work.produce(broker, session, request(a="a1", b="b1")))
    second = asyncio.create_task(work.produce(broker, session, request(b="b2")))
    await second
    assert logs.appended == [("b", "b1"), ("b", "b2")]
    logs.is_led.set()
    answer = await first
    assert answer is not None
    assert [each["name"] for each in answer["responses"]] == ["a", "b"]
    assert logs.appended[-1] == ("a", "a1")


async def test_a_topic_that_a_fetch_repeats_and_topics_beyond_the_limit_are_refused() -> None:
    def topic(name: str, *partitions: int) -> Any:
        asked = [
            SimpleNamespace(partition=each, fetch_offset=0, partition_max_bytes=1)
            for each in partitions
        ]
        return SimpleNamespace(topic=name, partitions=asked)

    topics = [topic("t", 7, 7), *(topic(f"t{each}", 7) for each in range(READINGS_MAX))]
    limits = SimpleNamespace(wait_seconds=0)
    broker: Any = SimpleNamespace(
        charge=lambda *_: None,
        check=lambda *_: None,
        limits=limits,
        admission=SimpleNamespace(free=10),
        client=None,
    )
    session: Any = SimpleNamespace(readings={})
    asked = SimpleNamespace(
        topics=topics,
        max_bytes=1,
        min_bytes=1,
        max_wait=SimpleNamespace(total_seconds=lambda: 0.0),
    )
    answer = await fetch(broker, session, asked)
    codes = [part["error_code"] for each in answer["responses"] for part in each["partitions"]]
    unknown, refused = ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_request
    assert codes[:2] == [unknown, refused]
    assert codes[2:] == [unknown] * (READINGS_MAX - 1) + [refused]
