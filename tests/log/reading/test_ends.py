"""The ends of many logs: as fresh as a snapshot's, and read only where a manifest changed."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import cast

import pytest

from quire.log.manifest import known
from quire.log.manifest.known import KnownManifests
from quire.log.reading import ends
from quire.log.reading.ends import LogEnds, LogReach
from tests.ledger.following import count_calls
from tests.support.log_cluster import Client, LogCluster, numbered, run
from tests.support.memory_cluster import down
from tests.support.news_pipe import PushingBookie


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

    def hush(self, cluster: LogCluster) -> None:
        """Let no more news arrive."""
        for bookie in cluster.bookies.values():
            for pipe in cast("PushingBookie", bookie).pipes:
                pipe._back = asyncio.Queue()

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


def test_an_open_segment_is_asked_again_only_after_news() -> None:
    async def main() -> None:
        async with LogCluster(kind=PushingBookie) as cluster:
            writer, looking = cluster.new_client(), Looking(cluster.new_client())
            names = [f"log{number}" for number in range(5)]
            leaders = {name: await writer.logs.open(name) for name in names}
            empty = await writer.logs.open("empty")
            for leader in leaders.values():
                await leader.append_many(numbered(0, 2))
            await asyncio.sleep(0.1)
            expected: dict[str, int | None] = {**dict.fromkeys(names, 2), "empty": 0}
            assert await looking.offsets(*expected) == expected
            await asyncio.sleep(100)
            counts = count_calls(cluster)
            assert await looking.offsets(*expected) == expected
            assert (looking.asked, counts) == ({"changed": 1}, {}), "nothing happened"
            await leaders["log3"].append_many(numbered(2, 3))
            await empty.append_many(numbered(0, 1))
            await asyncio.sleep(0.1)
            counts = count_calls(cluster)
            expected |= {"log3": 5, "empty": 1}
            assert await looking.offsets(*expected) == expected
            assert counts["read"] == 2, "one header of each"
            await leaders["log1"].roll()
            await leaders["log1"].append_many(numbered(2, 1))
            await leaders["log2"].close()
            await asyncio.sleep(0.1)
            expected |= {"log1": 3}
            assert await looking.offsets(*expected) == expected
            await looking.ends.close()
            for leader in (*leaders.values(), empty):
                await leader.close()

    run(main)


def test_a_fresh_look_needs_no_news() -> None:
    async def main() -> None:
        async with LogCluster(kind=PushingBookie) as cluster:
            writer, looking = cluster.new_client(), Looking(cluster.new_client())
            leader = await writer.logs.open("live")
            await leader.append_many(numbered(0, 2))
            await asyncio.sleep(0.1)
            assert await looking.offsets("live") == {"live": 2}
            await asyncio.sleep(1)
            looking.hush(cluster)
            await leader.append_many(numbered(2, 3))
            await asyncio.sleep(0.1)
            assert await looking.offsets("live") == {"live": 2}, "its news are held back"
            found = (await looking.ends.find({"live": 0}, fresh=True))["live"]
            assert found is not None
            assert found.offset == 5
            await looking.ends.close()
            await leader.close()

    run(main)


def test_bookies_that_go_and_lost_connections_count_as_news() -> None:
    async def main() -> None:
        async with LogCluster(5, kind=PushingBookie) as cluster:
            writer, looking = cluster.new_client(), Looking(cluster.new_client())
            leader = await writer.logs.open("live")
            await leader.append_many(numbered(0, 2))
            await asyncio.sleep(0.1)
            written = 2
            for round_ in range(6):
                assert await looking.offsets("live") == {"live": written}
                await asyncio.sleep(1)
                manifest = await writer.logs.find("live")
                ensemble = (await cluster.catalog.metadata(manifest.rows[-1].ledger)).last_fragment
                victim = ensemble.bookies[round_ % 3]
                if round_ % 2:
                    for pipe in cast("PushingBookie", cluster.bookies[victim]).pipes:
                        pipe.break_off("by order of the test")
                else:
                    cluster.bookies[victim].before = down()
                await leader.append_many(numbered(written, 1))
                written += 1
                await asyncio.sleep(1)
                assert await looking.offsets("live") == {"live": written}
                cluster.bookies[victim].before = down("nothing")
                await cluster.pass_time(60)
            await looking.ends.close()
            await leader.close()

    run(main)


def test_of_more_logs_than_can_be_watched_the_others_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with LogCluster(kind=PushingBookie) as cluster:
            writer, looking = cluster.new_client(), Looking(cluster.new_client())
            leaders = {name: await writer.logs.open(name) for name in ("a", "b", "c", "d")}
            expected: dict[str, int | None] = {}
            for number, (name, leader) in enumerate(leaders.items(), 1):
                await leader.append_many(numbered(0, number))
                expected[name] = number
            await asyncio.sleep(1)
            for asked in (("a", "b", "c", "d"), ("c", "d"), ("a", "c")):
                for _ in range(2):
                    found = await looking.offsets(*asked)
                    assert found == {name: expected[name] for name in asked}
                    assert len(looking.ends._watched) == 2
                    await asyncio.sleep(1)
            await looking.ends.close()
            for leader in leaders.values():
                await leader.close()

    monkeypatch.setattr(ends, "WATCHED_MAX", 2)
    run(main)
