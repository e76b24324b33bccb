"""A denial counts as far as it reaches, for what it means, and for nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from quire.bookie import Denial, Meaning, read_denial
from quire.entry import ENTRY_MAX, LedgerId
from quire.errors import (
    BookieUnavailableError,
    CorruptEntryError,
    EntryUnknownError,
    LedgerDisownedError,
    LedgerRetiredError,
    NoSuchEntryError,
    NoSuchLedgerError,
    QuireError,
    UnreadableError,
)
from quire.ledger.quorum import Replication
from quire.testing.bookie import MemoryBookie
from tests.ledger.recovering import scenario
from tests.support.memory_cluster import MemoryCluster, down
from tests.support.planted_ledger import PlantedLedger

UNKNOWN = Denial(Meaning.UNKNOWN, 5, 5)


@pytest.mark.parametrize(
    ("error", "meant"),
    [
        (NoSuchEntryError(1, 5), Denial(Meaning.ABSENT, 5, 5)),
        (NoSuchEntryError(1, 5, 7), Denial(Meaning.ABSENT, 5, 7)),
        (NoSuchEntryError(1, 3, 7), Denial(Meaning.ABSENT, 5, 7)),
        (NoSuchEntryError(1, 5, ENTRY_MAX), Denial(Meaning.ABSENT, 5, 9)),  # as far as was asked
        (NoSuchEntryError(1, 6, 7), UNKNOWN),  # it leaves the first entry out
        (NoSuchEntryError(1, 4), UNKNOWN),
        (NoSuchEntryError(1, 5, 3), UNKNOWN),
        (NoSuchLedgerError(1), Denial(Meaning.ABSENT, 5, 9)),
        (LedgerRetiredError(1), Denial(Meaning.RETIRED, 5, 9)),
        (LedgerDisownedError(1, 5, "moved"), Denial(Meaning.DISOWNED, 5, 9)),
        (EntryUnknownError(1, 5, "in limbo"), UNKNOWN),
        (CorruptEntryError(1, 5, "rotten"), UNKNOWN),
        (BookieUnavailableError("b", "silent"), UNKNOWN),
    ],
)
def test_what_an_error_says_about_entries_5_to_9(error: QuireError, meant: Denial) -> None:
    assert read_denial(error, 5, 9) == meant


def answering(bookie: MemoryBookie, error: QuireError) -> None:
    """Let a bookie answer reads of what it does not hold with another error."""
    read = bookie.read

    async def instead(ledger: LedgerId, first: int, last: int, **more: Any) -> bytes:
        try:
            return await read(ledger, first, last, **more)
        except (NoSuchEntryError, NoSuchLedgerError):
            raise error from None

    bookie.read = instead  # type: ignore[method-assign]


def step_by_step(bookie: MemoryBookie) -> None:
    """Let a bookie look entries up one by one, so that it denies one at a time."""
    read = bookie.read

    async def stepwise(ledger: LedgerId, first: int, last: int, **more: Any) -> bytes:
        await read(ledger, first, first, **more)
        return await read(ledger, first, last, **more)

    bookie.read = stepwise  # type: ignore[method-assign]


@pytest.mark.parametrize(("write_quorum", "ack_quorum"), [(2, 2), (3, 2), (2, 1), (1, 1)])
def test_bookies_that_deny_one_entry_at_a_time_lose_nothing(
    write_quorum: int, ack_quorum: int
) -> None:
    """With stripes each bookie lacks entries that are not its own, below ones that it holds."""

    async def body(cluster: MemoryCluster) -> None:
        replication = Replication(4, write_quorum, ack_quorum)
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2 b3"), replication=replication)
        for entry in range(12):
            await planted.add(" ".join(f"b{p}" for p in replication.write_set(entry)), entry)
        for bookie in cluster.bookies.values():
            step_by_step(bookie)
        assert await planted.read_all() == list(range(12))

    scenario(4, body)


@pytest.mark.parametrize(
    "answer", [NoSuchEntryError(1, 7), NoSuchEntryError(1, 2, 5), LedgerDisownedError(1, 0, "")]
)
def test_what_does_not_deny_the_entry_ends_no_ledger(answer: QuireError) -> None:
    """b0 has acked 0 and 1 and is away. The others answer something else than "no such entry"."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0", 0, 1)
        cluster.bookies["b0"].before = down("read")
        for name in ("b1", "b2"):
            answering(cluster.bookies[name], answer)
        with pytest.raises(UnreadableError):
            await planted.read_all()
        cluster.bookies["b0"].before = down("nothing")
        for name in ("b1", "b2"):
            del cluster.bookies[name].read
        assert await planted.read_all() == [0, 1]

    scenario(3, body)
