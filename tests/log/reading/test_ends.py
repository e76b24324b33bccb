"""The ends of many logs: as fresh as a snapshot's, and read only where a manifest changed."""

from __future__ import annotations

from collections import Counter

import pytest

from quire.log.manifest import known
from quire.log.manifest.known import KnownManifests
from quire.log.reading.ends import LogEnds, LogReach
from tests.support.log_cluster import Client, LogCluster, numbered, run


class Looking:
    """Ends as a client finds them, and what it asks the store meanwhile."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.asked: Counter[str] = Counter()
        manifests = KnownManifests(client.store, client.logs._record)
        self.ends = LogEnds(manifests, client.logs._segments)

        async def count(method: str, path: str) -> None:
            self.asked[method] += 1

        client.store.before = count

    async def find(self, **logs: int) -> dict[str, LogReach | None]:
        self.asked.clear()
        return await self.ends.find(logs)

    async def offsets(self, *logs: str) -> dict[str, int | None]:
        found = await self.find(**dict.fromkeys(logs, 0))
        return {name: None if reach is None else reach.offset for name, reach in found.items()}


async def write(client: Client, log: str, count: int) -> None:
    async with await client.logs.open(log) as leader:
        await leader.append_many(numbered(0, count))


def test_an_end_is_the_end_of_a_snapshot() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            writer, looking = cluster.new_client(), Looking(cluster.new_client())
            await write(writer, "closed", 3)
            await writer.logs.create("empty")
            await write(writer, "trimmed", 4)
            await writer.logs.trim("trimmed", 4)
            live = await writer.logs.open("live")
            await live.append_many(numbered(0, 2))
            await live.roll()
            await live.append_many(numbered(2, 3))
            await writer.logs.tail("live", linearizable=True)
            names = ("closed", "empty", "trimmed", "live", "missing")
            expected = {"closed": 3, "empty": 0, "trimmed": 4, "live": 5, "missing": None}
            assert await looking.offsets(*names) == expected
            spans = await writer.logs.snapshot("live")
            assert spans[-1].offsets.stop == 5
            assert await looking.find(live=9, closed=7) == {
                "live": LogReach(live.log_id, 9),
                "closed": LogReach((await writer.logs.find("closed")).log_id, 7),
            }
            await live.close()

    run(main)


def test_without_news_no_manifest_is_read() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            writer, looking = cluster.new_client(), Looking(cluster.new_client())
            names = [f"log{number}" for number in range(20)]
            for name in names:
                await write(writer, name, 1)
            assert await looking.offsets(*names) == dict.fromkeys(names, 1)
            assert looking.asked == {"get": 20}
            assert await looking.offsets(*names) == dict.fromkeys(names, 1)
            assert looking.asked == {"changed": 1}
            await write(writer, "log7", 2)
            assert await looking.offsets(*names) == dict.fromkeys(names, 1) | {"log7": 3}
            assert looking.asked == {"changed": 1, "get": 1}

    run(main)


def test_logs_that_come_go_and_are_recreated_are_seen_at_once() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            writer, looking = cluster.new_client(), Looking(cluster.new_client())
            assert await looking.offsets("a", "b") == {"a": None, "b": None}
            await write(writer, "a", 2)
            before = (await looking.find(a=0, b=0))["a"]
            assert before is not None
            await writer.logs.delete("a")
            await write(writer, "b", 1)
            assert await looking.offsets("a", "b") == {"a": None, "b": 1}
            await write(writer, "a", 2)
            after = (await looking.find(a=0))["a"]
            assert after is not None
            assert after.offset == before.offset
            assert after.log_id != before.log_id

    run(main)


def test_manifests_that_are_asked_for_no_longer_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            writer, looking = cluster.new_client(), Looking(cluster.new_client())
            for name in ("a", "b", "c"):
                await write(writer, name, 1)
            await looking.offsets("a", "b")
            await looking.offsets("a", "b", "c")
            assert looking.asked == {"changed": 1, "get": 1}
            await looking.offsets("a")
            await looking.offsets("b")
            assert looking.asked == {"get": 1}, "the limit was passed"

    monkeypatch.setattr(known, "KNOWN_MAX", 2)
    run(main)
