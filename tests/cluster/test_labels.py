"""Three racks of two bookies, as processes: no rack has two copies, and one rack may go."""

from __future__ import annotations

import asyncio
from pathlib import Path

from quire import connect
from quire.cluster import LocalCluster
from quire.labels import Labels
from quire.ledger.domains import Placement
from quire.ledger.options import LedgerOptions

RACKS = [Labels(rack=f"r{number}") for number in range(3)]
LEDGERS = 20


def test_one_rack_of_three_may_go(tmp_path: Path) -> None:
    async def main() -> None:
        options = LedgerOptions(placement=Placement.parse("durable=rack:2"))
        async with (
            LocalCluster(tmp_path, 6, labels=RACKS) as cluster,
            connect(cluster.store_uri, options=options) as client,
        ):
            racks = {each.bookie: each.labels.rack for each in client.bookies()}
            assert sorted(racks.values()) == ["r0", "r0", "r1", "r1", "r2", "r2"]
            assert all(each.labels.host and each.room for each in client.bookies())
            ledgers = []
            for number in range(LEDGERS):
                async with await client.create_ledger() as writer:
                    await writer.append(b"%d" % number)
                    ledgers.append(writer.ledger)
                    (fragment,) = writer.info.fragments
                    assert {racks[each] for each in fragment.bookies} == {"r0", "r1", "r2"}
            writer = await client.create_ledger()
            await writer.append(b"before")
            for index in range(6):
                if racks[_bookie(cluster, index)] == "r0":
                    cluster.kill(index)
            assert await writer.append(b"after") == 1, "copies in two racks are there"
            await writer.close()
            for number, ledger in enumerate(ledgers):
                async with await client.open_ledger(ledger) as reader:
                    assert (await reader.read_entry(0)).payload == b"%d" % number

    asyncio.run(main())


def _bookie(cluster: LocalCluster, index: int) -> str:
    ready = cluster.ready(index)
    assert ready is not None
    return ready.bookie
