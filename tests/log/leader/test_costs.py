"""What metadata costs: nothing per append, a fixed number of operations per roll."""

from __future__ import annotations

import asyncio
from collections import Counter

from quire.metastore.layout import LEDGER_IDS
from tests.support.log_cluster import LogCluster, append_all, numbered, run

ROLL_CHANGES = 4
"""Create the ledger; list it in the manifest; close the old ledger; seal its segment."""


def test_appends_cost_no_metadata_and_a_roll_four_changes() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(batch_records=4)
            await append_all(log, numbered(0, 4))
            await log.roll()  # the first reads its ledger's record again: a log's creation moved it
            await asyncio.sleep(1)
            calls: Counter[str] = Counter()

            async def count(method: str, path: str) -> None:
                if not path.startswith(LEDGER_IDS):  # a block of ids serves many ledgers
                    calls[method] += 1

            client.store.before = count
            await append_all(log, numbered(4, 400))
            await asyncio.sleep(1)
            assert calls == {}
            rolls = 10
            for number in range(rolls):
                await log.append(b"%d" % number)
                await log.roll()
            changes = calls["create"] + calls["put"] + calls["delete"]
            assert changes == ROLL_CHANGES * rolls
            await log.close()

    run(main)
