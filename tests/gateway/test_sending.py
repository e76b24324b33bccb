"""Requests of slow clients, and what they hold, over a cluster in memory and in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, MutableMapping
from functools import partial
from typing import Any

import pytest

from quire.gateway.answers import BusyError
from quire.gateway.bodies import event_of
from quire.gateway.consumers import Consumers
from quire.gateway.limits import (
    BODY_SECONDS,
    COUNTED_BYTES,
    Admission,
    GatewayLimits,
    HeldPlace,
)
from quire.gateway.reads import paced, stream_events
from quire.gateway.sending import counted
from quire.testing.cluster import MemoryCluster
from tests.gateway.test_app import RECORDS, Served, serving
from tests.support.freed import FreedBytes

LARGE = "x" * (2 * COUNTED_BYTES)

TAIL = "/v1/logs/orders/tail"


class SlowClient:
    """A request whose client takes nothing of the answer before `takes` is set."""

    def __init__(self, one: Served, path: str) -> None:
        self.takes = asyncio.Event()
        self.stalled = asyncio.Event()
        """The gateway waits for the client."""
        self._under_way = 0
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "query_string": b"from=0",
            "headers": [],
            "http_version": "1.1",
            "scheme": "http",
            "server": ("one", 80),
            "client": ("127.0.0.1", 1),
            "asgi": {"version": "3.0", "spec_version": "2.4"},
        }
        self.asking = asyncio.ensure_future(one.gateway.app(scope, self._receive, self._send))

    async def _receive(self) -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError("never")

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        """Wait as a server does: before a part, until the client has those before it."""
        if self._under_way:
            self.stalled.set()
            await self.takes.wait()
        self._under_way += len(message.get("body", b""))

    async def leave(self) -> None:
        self.asking.cancel()
        await asyncio.gather(self.asking, return_exceptions=True)


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.mark.parametrize("begun", [b"", b'{"value'])
async def test_a_body_that_does_not_come_gives_its_place_back(
    cluster: MemoryCluster, begun: bytes
) -> None:
    async def stalling() -> AsyncIterator[bytes]:
        yield begun
        await asyncio.Event().wait()

    async with serving(cluster, limits=GatewayLimits(requests=1)) as one:
        kind = {"Content-Type": "application/json"}
        sent = asyncio.ensure_future(one.http.post(RECORDS, content=stalling(), headers=kind))
        await asyncio.sleep(BODY_SECONDS - 1)
        assert (await one.http.get("/v1/logs")).status_code == 429
        answer = await sent
        assert (answer.status_code, answer.json()["error"]) == (408, "stalled")
        assert answer.headers["connection"] == "close", "the rest of the body is not read"
        assert (await one.http.get("/v1/logs")).json() == {"logs": []}
        assert (one.gateway.admission.requests, one.gateway.admission.bytes) == (0, 0)


async def test_an_answer_holds_its_place_and_its_bytes_until_it_is_taken(
    cluster: MemoryCluster,
) -> None:
    limits = GatewayLimits(bytes=len(LARGE) + 50)
    async with serving(cluster, limits=limits) as one:
        await one.append(LARGE)
        slow = SlowClient(one, RECORDS)
        await slow.stalled.wait()
        admission = one.gateway.admission
        assert admission.requests == 1
        assert admission.bytes > len(LARGE)
        slow_too = SlowClient(one, RECORDS)
        await slow_too.asking
        assert not slow_too.stalled.is_set(), "a short answer: busy"
        refused = await one.http.get(RECORDS)
        assert (refused.status_code, refused.json()["error"]) == (429, "busy")
        assert (await one.http.get("/readyz")).status_code == 200
        slow.takes.set()
        await slow.asking
        assert (admission.requests, admission.bytes) == (0, 0)
        assert await one.read() == [LARGE]


async def test_a_client_that_leaves_gives_back_what_it_held(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        await one.append(LARGE)
        slow = SlowClient(one, RECORDS)
        await slow.stalled.wait()
        await slow.leave()
        assert (one.gateway.admission.requests, one.gateway.admission.bytes) == (0, 0)


@pytest.mark.parametrize("path", ["/v1/logs/orders/tail", RECORDS])
async def test_open_streams_are_bounded_apart_from_requests(
    cluster: MemoryCluster, path: str
) -> None:
    async with serving(cluster, limits=GatewayLimits(streams=1, requests=1)) as one:
        await one.append("a")
        slow = SlowClient(one, "/v1/logs/orders/tail")
        await slow.stalled.wait()
        events = {"Accept": "text/event-stream"}
        refused = await one.http.get(path, headers=events)
        assert (refused.status_code, refused.json()["error"]) == (429, "busy")
        assert await one.read() == ["a"], "a stream has no place of a request"
        await slow.leave()
        assert one.gateway.admission.streams == 0


def test_an_answer_that_tells_what_happened_is_not_refused() -> None:
    admission = Admission(GatewayLimits(bytes=1000))
    with HeldPlace(admission) as first, HeldPlace(admission) as second:
        first.keep(COUNTED_BYTES + 1, is_certain=False)
        with pytest.raises(BusyError):
            second.keep(COUNTED_BYTES + 1, is_certain=False)
        second.keep(COUNTED_BYTES, is_certain=False)
        second.keep(COUNTED_BYTES + 1, is_certain=True)
        assert admission.bytes == 2 * (COUNTED_BYTES + 1)
    assert admission.bytes == 0


async def test_a_part_of_a_stream_counts_until_it_is_taken(cluster: MemoryCluster) -> None:
    async with serving(cluster, limits=GatewayLimits(bytes=len(LARGE))) as one:
        await one.append("x" * (len(LARGE) - 100))
        slow = SlowClient(one, TAIL)
        await slow.stalled.wait()
        admission = one.gateway.admission
        assert admission.bytes > len(LARGE)
        assert (await one.http.get(RECORDS)).status_code == 429
        slow.takes.set()
        await asyncio.sleep(1)
        assert admission.bytes == 0
        await slow.leave()


async def test_a_stream_that_is_left_gives_back_its_part(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        await one.append(LARGE)
        slow = SlowClient(one, TAIL)
        await slow.stalled.wait()
        assert one.gateway.admission.bytes > len(LARGE)
        await slow.leave()
        assert (one.gateway.admission.streams, one.gateway.admission.bytes) == (0, 0)


async def test_a_stream_without_space_for_its_part_ends_and_can_go_on() -> None:
    async def parts() -> AsyncGenerator[bytes, None]:
        yield b": small\n\n"
        yield LARGE.encode()
        raise AssertionError("no further part is made")

    admission = Admission(GatewayLimits(bytes=1))
    admission.hold(1)
    said = [part async for part in counted(admission, parts())]
    assert said == [
        b": small\n\n",
        b"event: error\ndata: busy: the gateway is busy: answers wait for their clients\n\n",
    ]
    assert admission.bytes == 1


async def test_a_stream_that_waits_holds_no_part(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed = FreedBytes()
    monkeypatch.setattr(
        "quire.gateway.reads.event_of", lambda record: freed.watch(event_of(record))
    )
    async with serving(cluster) as one:
        await one.append(LARGE)
        opening = partial(Consumers().stream, "http", "a", "orders")
        source = paced(stream_events(one.gateway.client, "orders", 0), lambda *_: 0.0, opening)
        stream = counted(one.gateway.admission, source)
        assert (await anext(stream)).startswith(b": the stream begins")
        assert LARGE.encode() in await anext(stream)
        assert await anext(stream) == b"", "after which the client has the part"
        coming = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(1)
        assert not coming.done()
        assert freed.count == 1
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        await stream.aclose()
