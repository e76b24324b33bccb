"""What comes of trouble that lasts, or comes at a bad moment: nobody hangs or is told wrong."""

from __future__ import annotations

import asyncio
import logging

import pytest

from quire.errors import (
    AppendOutcomeUnknownError,
    InvalidRequestError,
    QuireError,
    ReadOnlyBookieError,
    StoreOutcomeUnknownError,
)
from quire.ledger.metadata import LedgerState
from quire.ledger.numbered import NumberedWriter
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.replica_sender import SenderState
from tests.support.memory_cluster import MemoryCluster, hung
from tests.support.virtual import virtually
from tests.support.writing import Writing

FAILURES_MANY = 1200
"""A float holds no power of two as high."""


def test_a_bookie_that_failed_a_thousand_times_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with Writing(Replication(3, 3, 2), bookies=3, append_timeout=5.0) as world:
            sender = world.writer._ensemble.senders[2]
            world.bookies["c"].fail()
            while sender.failures < FAILURES_MANY:
                await world.writer.append(b"x")
                await asyncio.sleep(1.0)
            world.bookies["c"].heal()
            for _ in range(5):
                await world.writer.append(b"y")
                await asyncio.sleep(1.0)
            assert sender.state is SenderState.UP
            world.bookies["b"].fail()
            world.bookies["c"].fail()
            with pytest.raises(QuireError):
                await world.writer.append(b"z")

    with caplog.at_level(logging.ERROR, "quire"):
        virtually(main)
    assert caplog.records == []


def test_a_bookie_that_was_read_only_once_is_no_reason_to_replace_another() -> None:
    async def main() -> None:
        shape = Replication(3, 3, 2)
        async with Writing(shape, delay_ensemble_change=True, quarantine=1.0) as world:
            world.roster.hidden.add("d")
            world.bookies["c"].fail_with(ReadOnlyBookieError("c", "full"))
            await world.writer.append(b"0")
            await asyncio.sleep(1)
            world.bookies["c"].heal()
            for _ in range(3):
                await world.writer.append(b"1")
                await asyncio.sleep(1)
            world.roster.hidden.clear()
            world.bookies["b"].fail()
            await world.writer.append(b"2")
            await asyncio.sleep(3)
            assert [each.first for each in world.writer._metadata.fragments] == [0]

    virtually(main)


@pytest.mark.parametrize("deferred", [False, True])
def test_a_force_takes_in_all_that_waits_behind_no_gap(deferred: bool) -> None:
    async def main() -> None:
        options = LedgerOptions(entries_in_flight_max=4)
        async with MemoryCluster(3, options=options) as cluster:
            writer = NumberedWriter(await cluster.catalog.create(deferred_sync=deferred))
            for entry in (*range(12), 13):
                await writer.submit(entry, b"x")
            assert await writer.force() == 11
            writer.abandon()
            await writer.close()

    virtually(main)


def test_a_force_ends_with_a_writer_that_ends_meanwhile() -> None:
    async def main() -> None:
        options = LedgerOptions(entries_in_flight_max=2)
        async with MemoryCluster(3, options=options) as cluster:
            writer = NumberedWriter(await cluster.catalog.create())
            for bookie in cluster.bookies.values():
                bookie.before = hung("add")
            for entry in range(8):
                await writer.submit(entry, b"x")
            forcing = asyncio.create_task(writer.force())
            await asyncio.sleep(0.1)
            writer.abandon()
            with pytest.raises(QuireError):
                await forcing

    virtually(main)


def test_closing_says_when_appends_that_were_answered_are_cut_off() -> None:
    async def main() -> None:
        options = LedgerOptions(append_timeout=5, request_timeout=1)
        async with MemoryCluster(3, options=options) as cluster:
            writer = await cluster.catalog.create(deferred_sync=True)
            assert [await writer.append(b"x") for _ in range(3)] == [0, 1, 2]
            for name in list(cluster.bookies)[:2]:
                cluster.bookies[name].before = hung("sync")
            with pytest.raises(AppendOutcomeUnknownError, match="entry 0"):
                await writer.close()
            assert writer._metadata.last_entry == -1
            await writer.close()

    virtually(main)


def test_a_close_whose_answer_does_not_come_in_time_has_an_unknown_outcome() -> None:
    async def main() -> None:
        async with Writing(append_timeout=5) as world:
            await world.writer.append(b"x")

            async def after(method: str, path: str) -> None:
                if method == "put":
                    await asyncio.Event().wait()

            world.store.after = after
            with pytest.raises(StoreOutcomeUnknownError):
                await world.writer.close()
            assert (await world.metadata()).state is LedgerState.CLOSED

    virtually(main)


@pytest.mark.parametrize("custom_metadata", [{"job": 7}, {"job": None}, {7: "job"}])
def test_metadata_of_ones_own_that_nobody_could_read_is_refused(
    custom_metadata: dict[str, str],
) -> None:
    async def main() -> None:
        async with MemoryCluster(3) as cluster:
            with pytest.raises(InvalidRequestError, match="text only"):
                await cluster.catalog.create(custom_metadata=custom_metadata)
            assert await cluster.catalog.list() == []

    virtually(main)
