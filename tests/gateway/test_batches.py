"""Requests with several records, and reads of the latest: what their callers are told."""

from __future__ import annotations

import pytest

import quire
from quire.gateway import app, reads
from quire.testing.cluster import MemoryCluster
from tests.gateway.test_app import RECORDS, serving

LARGE = "x" * 5_000_000
"""More than an entry has space for."""


async def test_a_refusal_tells_of_the_records_that_were_written_before_it() -> None:
    async with serving(MemoryCluster()) as one:
        refused = await one.append("a", "b", LARGE, "c")
        assert (refused.status_code, refused.json()["error"]) == (504, "outcome_unknown")
        told = "the first 2 of its 4 records are in the log, and the next one was refused: payload"
        assert refused.json()["message"].startswith(told)
        assert await one.read() == ["a", "b"]


async def test_a_refusal_before_the_first_record_is_as_for_one_record() -> None:
    async with serving(MemoryCluster()) as one:
        await one.append("a")
        refused = await one.append(LARGE, "b")
        assert (refused.status_code, refused.json()["error"]) == (413, "too_large")
        assert await one.read() == ["a"]


async def test_a_read_of_the_latest_goes_on_where_it_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def read_page(
        client: quire.Client, name: str, start: quire.Position, limit: int, wait: float
    ) -> list[quire.Record]:
        found = await reads.read_page(client, name, start, limit, wait)
        await one.append("b")  # before the answer is made
        return found

    async with serving(MemoryCluster()) as one:
        await one.append("a")
        with monkeypatch.context() as patched:
            patched.setattr(app, "read_page", read_page)
            page = await one.http.get(RECORDS, params={"from": "latest", "wait": "2s"})
        assert page.json()["records"] == []
        assert await one.read(**{"from": page.json()["next"]}) == ["b"]


async def test_a_stream_of_the_latest_goes_on_where_it_began() -> None:
    async with serving(MemoryCluster()) as one:
        await one.append("a")
        stream = reads.stream_events(one.gateway.client, "orders", quire.LATEST)
        comment, began = (await anext(stream)).decode().splitlines()[:2]
        await stream.aclose()
        await one.append("b")  # before the client has connected again
        assert comment.startswith(":")
        start = quire.Position.parse(began.removeprefix("id: "))
        again = reads.stream_events(one.gateway.client, "orders", start)
        assert await anext(again) == b": the stream begins\n\n"
        assert '"value": "b"' in (await anext(again)).decode()
        await again.aclose()
