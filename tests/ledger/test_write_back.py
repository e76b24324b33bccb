"""When a batch of recovered entries is written back: each entry counts for itself."""

from __future__ import annotations

import random
from itertools import product

import pytest

from quire.entry import NO_ENTRY, Entry
from quire.errors import NotEnoughBookiesError
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.write_back import WriteBack
from tests.ledger.recovering import scenario
from tests.support.memory_cluster import MemoryCluster, down
from tests.support.planted_ledger import PAYLOAD_BYTES, PlantedLedger, payload


def entries(first: int, count: int) -> list[Entry]:
    ids = range(first, first + count)
    return [Entry(7, each, NO_ENTRY, PAYLOAD_BYTES * (each + 1), payload(each)) for each in ids]


@pytest.mark.parametrize("replication", [Replication(4, 2, 2), Replication(5, 3, 2)], ids=str)
def test_a_batch_is_safe_when_each_entry_has_its_ack_quorum(replication: Replication) -> None:
    """L3: entries of a striped ledger lie on different bookies, so what is known of the first
    entry of a batch says nothing about the next. Every batch of up to E entries, with every number
    of bookies at one end of the ensemble that refuse, and no spare.
    """
    size = replication.ensemble

    async def body(cluster: MemoryCluster) -> None:
        names = [f"b{number}" for number in range(size)]
        planted = await PlantedLedger.create(cluster, (0, " ".join(names)), replication=replication)
        metadata = await planted.metadata()
        for first, count, refusing in product(range(size), range(1, size + 2), range(size)):
            taking = names[refusing:]
            for name in names:
                cluster.bookies[name].ledgers.clear()
                cluster.bookies[name].before = down("nothing" if name in taking else "add")
            batch = entries(first, count)
            copies = [
                sum(names[at] in taking for at in replication.write_set(each.entry))
                for each in batch
            ]
            writing = WriteBack(
                metadata,
                cluster.roster,
                planted.sealer,
                LedgerOptions(),
                random.Random(1),
                NO_ENTRY,
            )
            if min(copies) < replication.ack_quorum:
                with pytest.raises(NotEnoughBookiesError):
                    await writing.write(batch)
            else:
                await writing.write(batch)
                held = [len(cluster.holders(7, each.entry)) for each in batch]
                assert held == copies

    scenario(size, body)


def test_a_bookie_that_failed_an_earlier_batch_is_asked_again_without_a_spare() -> None:
    """Trouble that has passed at one bookie, and begins at another, ends no recovery."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(
            cluster, (0, "b0 b1 b2"), replication=Replication(3, 3, 2)
        )
        writing = WriteBack(
            await planted.metadata(),
            cluster.roster,
            planted.sealer,
            LedgerOptions(),
            random.Random(1),
            NO_ENTRY,
        )
        cluster.bookies["b0"].before = down("add")
        await writing.write(entries(0, 2))
        cluster.bookies["b0"].before = down("nothing")
        cluster.bookies["b1"].before = down("add")
        await writing.write(entries(2, 2))
        assert [cluster.holders(7, each) for each in range(4)] == [["b1", "b2"]] * 2 + [
            ["b0", "b2"]
        ] * 2
        cluster.bookies["b0"].before = down("add")
        with pytest.raises(NotEnoughBookiesError):
            await writing.write(entries(4, 2))

    scenario(3, body)
