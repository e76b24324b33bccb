"""Leaders say what an operator wants to know, and nothing for each entry."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.support.log_cluster import NAME, LogCluster, append_all, numbered, run
from tests.support.memory_cluster import hung


def told(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    """What logs said; the ledgers below them have their own words."""
    records = [each for each in caplog.records if each.name.startswith("quire.log.")]
    return [each.getMessage() for each in records if each.levelno == level]


def test_a_takeover_says_where_it_recovered_to_and_where_it_leads_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            first = await cluster.new_client().open(batch_records=2)
            await append_all(first, numbered(0, 6))
            second = await cluster.new_client().open()
            await second.close()
            first.abandon()

    with caplog.at_level(logging.DEBUG, "quire.log"):
        run(main)
    said = told(caplog, logging.INFO)
    assert said[0] == f"log {NAME!r}: leads at epoch 1, from offset 0 on"
    assert said[1].startswith(f"log {NAME!r}: recovered segment 1, ledger 0, to entry ")
    assert said[2] == f"log {NAME!r}: leads at epoch 2, from offset 6 on"
    assert len(said) == 3


def test_appends_say_nothing_while_bookies_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(batch_records=1)
            caplog.clear()
            await append_all(log, numbered(0, 200))
            assert caplog.records == []
            await log.close()

    with caplog.at_level(logging.DEBUG, "quire"):
        run(main)


def test_appends_that_waited_for_bookies_warn_once_and_say_how_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(batch_records=1)
            await append_all(log, numbered(0, 3))
            for bookie in cluster.bookies.values():
                bookie.before = hung("add")
            futures = [await log.submit(record) for record in numbered(3, 8)]
            await asyncio.sleep(5)
            for bookie in cluster.bookies.values():
                bookie.before = hung("nothing")
            await asyncio.gather(*futures)
            await append_all(log, numbered(11, 3))
            await log.close()

    with caplog.at_level(logging.WARNING, "quire.log.leader.pipeline"):
        run(main)
    (said,) = told(caplog, logging.WARNING)
    assert said.startswith(f"log {NAME!r}: appends waited ")
    assert said.endswith(" s for bookies, from offset 3 on")
