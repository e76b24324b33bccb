"""The calls of Durable Streams, over a cluster in memory and in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import httpx
import pytest

from quire.gateway.durable import live
from quire.gateway.durable.state import STATE, StreamState
from quire.gateway.durable.streams import Streams
from quire.log.leader.log import Log
from quire.testing.cluster import MemoryCluster
from tests.gateway.test_app import ANNOUNCED, Served, serving
from tests.support.freed import FreedBytes

URL = "/v1/stream/chat"
TEXT = {"Content-Type": "text/plain"}
JSON = {"Content-Type": "application/json"}
CLOSED = {"Stream-Closed": "true"}


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


def producer(epoch: int, sequence: int, name: str = "p") -> dict[str, str]:
    return {"Producer-Id": name, "Producer-Epoch": str(epoch), "Producer-Seq": str(sequence)}


async def post(one: Served, body: str, headers: dict[str, str] | None = None) -> httpx.Response:
    return await one.http.post(URL, content=body, headers=TEXT | (headers or {}))


async def whole(one: Served, **query: str) -> str:
    answer = await one.http.get(URL, params=query)
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_bytes_are_appended_and_read_from_any_offset(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        made = await one.http.put(URL, headers=TEXT, content="a")
        assert (made.status_code, made.headers["location"]) == (201, "http://one" + URL)
        at = made.headers["stream-next-offset"]
        assert (await post(one, "b")).status_code == 204
        assert (await post(one, "c")).status_code == 204
        assert await whole(one) == "abc"
        found = await one.http.get(URL, params={"offset": at})
        assert (found.text, found.headers["stream-up-to-date"]) == ("bc", "true")
        assert found.headers["content-type"].startswith("text/plain")
        end = found.headers["stream-next-offset"]
        assert await whole(one, offset=end) == ""
        assert await whole(one, offset="now") == ""
        assert end > at


@pytest.mark.parametrize("more", [{}, {"Stream-TTL": "100"}], ids=["stays", "has an end"])
async def test_a_stream_is_created_once(cluster: MemoryCluster, more: dict[str, str]) -> None:
    async with serving(cluster) as one:
        created = await asyncio.gather(*(one.http.put(URL, headers=TEXT | more) for _ in range(5)))
        assert sorted(each.status_code for each in created) == [200, 200, 200, 200, 201]
        assert (await one.http.put(URL, headers=JSON)).status_code == 409
        assert (await one.http.put(URL, headers=TEXT | more | CLOSED)).status_code == 409
        assert (await one.gateway.client.log_end("chat", linearizable=True)).offset == 1
        forked = TEXT | {"Stream-Forked-From": URL}
        assert (await one.http.put("/v1/stream/other", headers=forked)).status_code == 501


async def test_what_is_no_stream_is_said(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        for answer in (
            await one.http.get(URL),
            await one.http.head(URL),
            await one.http.delete(URL),
        ):
            assert answer.status_code == 404
        assert (await post(one, "a")).status_code == 404
        assert await one.gateway.client.list_logs() == [], "no log was created"
        await one.append("a record")
        orders = await one.http.get("/v1/stream/orders")
        assert (orders.status_code, orders.json()["error"]) == (409, "no_stream")


async def test_values_keep_their_bounds(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        await one.http.put(URL, headers=JSON, content="[]")
        await one.http.post(URL, headers=JSON, content='[{"a":1},[2]]')
        await one.http.post(URL, headers=JSON, content="3")
        assert (await one.http.get(URL)).json() == [{"a": 1}, [2], 3]
        for body in ("[]", "{", ""):
            assert (await one.http.post(URL, headers=JSON, content=body)).status_code == 400
        assert (await post(one, "text")).status_code == 409


async def test_a_closed_stream_ends_for_all(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        await one.http.put(URL, headers=TEXT)
        waiting = asyncio.ensure_future(
            one.http.get(URL, params={"offset": "now", "live": "long-poll"})
        )
        await asyncio.sleep(1)
        done = await post(one, "last", CLOSED)
        assert (done.status_code, done.headers["stream-closed"]) == (204, "true")
        assert (await waiting).text == "last"
        again = await post(one, "more")
        assert (again.status_code, again.headers["stream-closed"]) == (409, "true")
        assert (await one.http.post(URL, headers=CLOSED)).status_code == 204
        found = await one.http.get(URL)
        assert (found.text, found.headers["stream-closed"]) == ("last", "true")
        polled = await one.http.get(URL, params={"offset": "now", "live": "long-poll"})
        assert (polled.status_code, polled.headers["stream-closed"]) == (204, "true")
    async with serving(cluster, "http://two") as two:
        assert (await post(two, "more")).status_code == 409
        assert (await two.http.head(URL)).headers["stream-closed"] == "true"


async def test_numbers_of_writers_only_grow(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        await one.http.put(URL, headers=TEXT)
        for number, status in (("a", 204), ("b", 204), ("b", 409), ("aa", 409), ("c", 204)):
            answer = await post(one, number, {"Stream-Seq": number})
            assert answer.status_code == status, number
        assert await whole(one) == "abc"
    async with serving(cluster, "http://two") as two:
        assert (await post(two, "x", {"Stream-Seq": "c"})).status_code == 409


async def test_repetitions_of_a_producer_are_written_once(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        await one.http.put(URL, headers=TEXT)
        first = await asyncio.gather(*(post(one, "a", producer(0, 0)) for _ in range(4)))
        assert sorted(each.status_code for each in first) == [200, 204, 204, 204]
        gap = await post(one, "c", producer(0, 2))
        assert (gap.status_code, gap.headers["producer-expected-seq"]) == (409, "1")
        assert (await post(one, "b", producer(0, 1))).status_code == 200
        assert (await post(one, "c", producer(1, 1))).status_code == 400
        assert (await post(one, "c", producer(1, 0))).status_code == 200
        stale = await post(one, "d", producer(0, 2))
        assert (stale.status_code, stale.headers["producer-epoch"]) == (403, "1")
        closing = await post(one, "z", producer(1, 1) | CLOSED)
        assert closing.status_code == 200
    async with serving(cluster, "http://two") as two:
        repeated = await post(two, "z", producer(1, 1) | CLOSED)
        assert (repeated.status_code, repeated.headers["stream-closed"]) == (204, "true")
        assert (await post(two, "y", producer(1, 0))).status_code == 409
        assert await whole(two) == "abcz"


async def test_a_repetition_is_known_after_a_takeover(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        await one.http.put(URL, headers=TEXT)
        await post(one, "a", producer(0, 0))
    async with serving(cluster, "http://two") as two:
        assert (await post(two, "a", producer(0, 0))).status_code == 204
        assert (await post(two, "b", producer(0, 1))).status_code == 200
        assert await whole(two) == "ab"


async def test_an_etag_changes_with_the_end_and_with_the_stream(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        tags = []
        for body in ("a", "b"):
            await one.http.put(URL, headers=TEXT, content=body)
            tags.append((await one.http.get(URL)).headers["etag"])
            known = {"If-None-Match": tags[-1]}
            assert (await one.http.get(URL, headers=known)).status_code == 304
            await one.http.post(URL, headers=CLOSED)
            assert (await one.http.get(URL, headers=known)).status_code == 200
            assert (await one.http.delete(URL)).status_code == 204
            assert (await one.http.get(URL)).status_code == 404
        assert len(set(tags)) == 2


async def test_a_stream_without_use_is_gone(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        await one.http.put(URL, headers=TEXT | {"Stream-TTL": "100"}, content="a")
        await asyncio.sleep(99)
        assert await whole(one) == "a"  # read: it begins anew
        await asyncio.sleep(99)
        assert (await one.http.head(URL)).headers["stream-ttl"] == "100"
        assert (await post(one, "b")).status_code == 204
        one.gateway.streams.clock = lambda: 1e11
        await asyncio.sleep(99)
        assert await whole(one) == "ab", "a wall clock that jumps ends no stream"
        await asyncio.sleep(101)
        assert (await post(one, "c")).status_code == 404
        assert (await one.http.get(URL)).status_code == 404
        assert "chat" not in await one.gateway.client.list_logs()
        assert (await one.http.put(URL, headers=TEXT, content="x")).status_code == 201
        assert await whole(one) == "x"


async def test_a_stream_past_its_date_is_back_when_the_clock_is_right(
    cluster: MemoryCluster,
) -> None:
    dated = TEXT | {"Stream-Expires-At": "2100-01-01T00:00:00Z"}
    async with serving(cluster) as one:
        right = one.gateway.streams.clock
        await one.http.put(URL, headers=dated, content="a")
        one.gateway.streams.clock = lambda: 1e11
        assert (await one.http.get(URL)).status_code == 404
        assert (await post(one, "b")).status_code == 404
        one.gateway.streams.clock = right
        assert await whole(one) == "a"
        one.gateway.streams.clock = lambda: 1e11
        assert (await one.http.put(URL, headers=TEXT, content="new")).status_code == 201
        assert await whole(one) == "new"


@pytest.mark.parametrize(
    ("closes", "more"),
    [(True, {}), (False, {}), (False, {"Stream-TTL": "100"})],
    ids=["a close", "a creation", "a creation with an end"],
)
async def test_a_repetition_waits_until_the_first_is_certain(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch, closes: bool, more: dict[str, str]
) -> None:
    """An answer says that the stream is closed, or there: then it is, whatever fails later."""
    certain = asyncio.Event()
    drain = Log.drain

    async def held(log: Log) -> None:
        await certain.wait()
        await drain(log)

    async with serving(cluster) as one:
        monkeypatch.setattr(Log, "drain", held)
        if closes:
            await one.http.put(URL, headers=TEXT)
        else:
            monkeypatch.setattr(Streams, "_look", nothing)

        def repeat() -> Awaitable[httpx.Response]:
            if closes:
                return post(one, "z", producer(0, 0) | CLOSED)
            return one.http.put(URL, headers=TEXT | more)

        assert (await repeat()).status_code == (200 if closes else 201)
        again = asyncio.ensure_future(repeat())
        await asyncio.sleep(5)
        assert not again.done()
        monkeypatch.undo()
        certain.set()
        assert (await again).status_code == (204 if closes else 200)


async def nothing(*_: object, **__: object) -> None:
    """Find no stream, as a request does that came before it was certain."""


async def test_an_append_cannot_have_a_log_deleted(cluster: MemoryCluster) -> None:
    """A header that says that the stream is over is believed only from its creation."""
    over = StreamState("text/plain", expires="2001-01-01T00:00:00Z", id="x").encode().decode()
    forged = {"value": "b", "headers": {STATE: over}}
    async with serving(cluster) as one:
        await one.append("a")
        await one.append(forged)
        assert (await one.http.get("/v1/stream/orders")).status_code == 200
        assert (await one.http.post("/v1/stream/orders", headers=CLOSED)).status_code == 204
        await asyncio.sleep(ANNOUNCED)
        assert await one.read() == ["a", "b", ""]


@pytest.mark.parametrize(
    "query",
    [
        {"offset": "x"},
        {"offset": ""},
        {"live": "sse"},
        {"live": "long-poll"},
        {"offset": "-1", "live": "other"},
    ],
)
async def test_wrong_questions_are_refused(cluster: MemoryCluster, query: dict[str, str]) -> None:
    async with serving(cluster) as one:
        await one.http.put(URL, headers=TEXT)
        assert (await one.http.get(URL, params=query)).status_code == 400


async def test_events_tell_what_is_there_and_what_comes(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        await one.http.put(URL, headers=TEXT, content="a\nb")
        streams = one.gateway.streams
        found = await streams.find("chat")

        def events(**more: Any) -> Any:
            return live.events(
                streams, "chat", found, None, None, lambda: None, lambda *_: 0.0, **more
            )

        source = events()
        said = await anext(source)
        assert said.startswith(b"event: data\ndata:a\ndata:b\n\nevent: control\n")
        assert b'"upToDate":true' in said
        assert await anext(source) == live.COMMENT
        coming = asyncio.ensure_future(anext(source))
        await post(one, "c", CLOSED)
        said = await coming
        assert said.startswith(b"event: data\ndata:c\n\n")
        assert b'"streamClosed":true' in said
        assert [each async for each in source] == []


async def test_the_connection_of_events_ends_after_a_minute(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        await one.http.put(URL, headers=TEXT, content="a")
        streams = one.gateway.streams
        found = await streams.find("chat")
        begun = asyncio.get_running_loop().time()
        source = live.events(streams, "chat", found, found.end, None, lambda: None, lambda *_: 0.0)
        said = [each async for each in source]
        assert 60 <= asyncio.get_running_loop().time() - begun < 61
        assert [each for each in said if each != live.COMMENT] == said[:1]
        assert said[0].startswith(b"event: control")


async def test_a_stream_of_events_that_waits_holds_nothing(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, freed = live._said, FreedBytes()
    monkeypatch.setattr(live, "_said", lambda *given: freed.watch(said(*given)))
    async with serving(cluster) as one:
        await one.http.put(URL, headers=TEXT, content="a")
        streams = one.gateway.streams
        found = await streams.find("chat")
        source = live.events(streams, "chat", found, None, None, lambda: None, lambda *_: 0.0)
        assert b"data:a" in await anext(source)
        assert await anext(source) == live.COMMENT
        assert freed.count == 1
        await source.aclose()


async def test_no_stream_runs_in_a_browser(cluster: MemoryCluster) -> None:
    """A page of the gateway's own origin could use the gateway as its reader does."""
    page = "<script>fetch('/v1/logs')</script>"
    async with serving(cluster) as one:
        await one.http.put(URL, headers={"Content-Type": "text/html"}, content=page)
        answers = [
            await one.http.get(URL),
            await one.http.get("/v1/stream/missing"),
            await one.http.get("/v1/logs/chat/records/1"),
            await one.http.get("/v1/logs"),
        ]
        assert answers[0].text == page
        for answer in answers:
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
