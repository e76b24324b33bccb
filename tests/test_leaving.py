"""Leaving `connect`: closed in order and visible, or abandoned and named; never told twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from quire.errors import (
    AppendOutcomeUnknownError,
    DeposedError,
    HandleClosedError,
    OutcomeUnknownError,
    QuireError,
)
from quire.leaving import OpenHandles
from quire.ledger.quorum import Replication
from quire.log.options import LogOptions
from tests.support.log_cluster import NAME, LogCluster, numbered, run
from tests.support.memory_cluster import hung


@contextmanager
def silent(cluster: LogCluster) -> Iterator[None]:
    """No bookie answers to an add."""
    for bookie in cluster.bookies.values():
        bookie.before = hung("add")
    yield
    for bookie in cluster.bookies.values():
        bookie.before = hung("nothing")


async def in_order(handles: OpenHandles) -> None:
    await handles.leave(None, None, None)


async def by(handles: OpenHandles, error: BaseException) -> None:
    await handles.leave(type(error), error, None)


def test_every_acknowledged_record_is_visible_after_leaving() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles()
            for number in range(5):
                log = handles.remember(await client.logs.open(f"log {number}", LogOptions()))
                await log.append(b"kept")
                await log.submit(b"under way")
            await in_order(handles)
            for number in range(5):
                async with await cluster.new_client().logs.read(f"log {number}") as reader:
                    assert [each.payload async for each in reader] == [b"kept", b"under way"]
                assert (await client.logs.describe(f"log {number}")).open_segments == ()

    run(main)


def test_a_ledger_is_closed_and_a_reader_ends() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles()
            writer = handles.remember(await client.catalog.create(Replication(3, 3, 2)))
            await writer.append(b"entry")
            following = await client.logs.read(NAME, follow=True, wait_for_log=True)
            reader = handles.remember(following)
            waiting = asyncio.ensure_future(anext(reader))
            await asyncio.sleep(0)
            await in_order(handles)
            assert (await client.catalog.metadata(writer.ledger)).last_entry == 0
            with pytest.raises(HandleClosedError):
                await waiting

    run(main)


def test_an_error_that_was_told_is_not_told_again_and_the_others_are_closed() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles()
            options = LogOptions(replication=Replication(3, 3, 2))
            failed = handles.remember(await client.logs.open("failed", options))
            other = handles.remember(await client.logs.open("other", options))
            await other.append(b"kept")
            with silent(cluster), pytest.raises(QuireError):
                await failed.append(b"lost")
            await in_order(handles)
            assert (await client.logs.describe("other")).open_segments == ()

    run(main)


def test_a_deposed_leader_leaves_in_peace() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            handles = OpenHandles()
            old = handles.remember(await cluster.new_client().open())
            await old.append(b"kept")
            new = await cluster.new_client().open()
            with pytest.raises(DeposedError):
                await old.append(b"late")
            await in_order(handles)
            await new.close()

    run(main)


def test_what_was_submitted_and_cannot_be_confirmed_is_an_error_of_leaving() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles()
            failing = handles.remember(await client.logs.open("failing", LogOptions()))
            other = handles.remember(await client.logs.open("other", LogOptions()))
            await other.append(b"kept")
            with silent(cluster):
                answer = await failing.submit(b"unknown")
                with pytest.raises(OutcomeUnknownError):
                    await in_order(handles)
            with pytest.raises(AppendOutcomeUnknownError):
                await answer

    run(main)


def test_an_exception_abandons_the_writers_and_names_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles()
            log = handles.remember(await client.open())
            writer = handles.remember(await client.catalog.create(Replication(3, 3, 2)))
            closed = handles.remember(await client.logs.open("closed", LogOptions()))
            await closed.close()
            with caplog.at_level(logging.WARNING, "quire.leaving"):
                await by(handles, KeyError("of the program"))
            (said,) = [each.getMessage() for each in caplog.records]
            assert f"KeyError: abandons log {NAME!r} (epoch 1), ledger {writer.ledger};" in said
            assert len((await client.manifest()).open_segments) == 1, "nothing was closed"
            assert log.has_ended
            assert writer.has_ended

    run(main)


def test_an_exception_without_an_open_writer_is_not_worth_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles()
            handles.remember(await client.logs.read(NAME, follow=True, wait_for_log=True))
            await by(handles, KeyError("of the program"))
            assert caplog.records == []

    run(main)


def test_leaving_that_is_cancelled_abandons_at_once() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles()
            log = handles.remember(await client.open())
            with silent(cluster):
                answer = await log.submit(numbered(0, 1)[0])
                leaving = asyncio.ensure_future(in_order(handles))
                await asyncio.sleep(0)
                leaving.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await leaving
                assert log.has_ended
                with pytest.raises(AppendOutcomeUnknownError):
                    await answer

    run(main)
