"""Whether a bookie can be spared: tables of ledgers and of bookies that are missing."""

from __future__ import annotations

import asyncio
import random

import pytest

from quire.entry import DigestKind
from quire.healing.naming import (
    find_naming,
    obstacles_to_away,
    obstacles_to_forget,
)
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from quire.ledger.stored_records import StoredRecords
from quire.metastore.memory import MemoryStore
from tests.healing.scene import AWAY, bookie, cluster

B1, B2, B3, B4 = (bookie(f"b{number}") for number in range(1, 5))


def ledger(
    number: int,
    *fragments: tuple[str, ...],
    quorums: tuple[int, int, int] = (3, 3, 2),
    end: int | None = None,
) -> LedgerMetadata:
    """An open ledger, or one that is closed at an entry; fragments begin at 0, 10, …"""
    metadata = LedgerMetadata(
        number,
        Replication(*quorums),
        DigestKind.CRC32C,
        "0" * 64,
        tuple(Fragment(10 * at, names) for at, names in enumerate(fragments)),
    )
    if end is None:
        return metadata
    return metadata.with_state(LedgerState.IN_RECOVERY).closed(end, 9)


ALL = ("b1", "b2", "b3")


def test_a_bookie_with_a_spare_can_be_away() -> None:
    facts = cluster(B1, B2, B3, B4)
    assert obstacles_to_away("b1", facts, [ledger(7, ALL, quorums=(3, 3, 3))]) == []


def test_without_a_spare_an_ack_quorum_must_be_left() -> None:
    facts = cluster(B1, B2, B3)
    assert obstacles_to_away("b1", facts, [ledger(7, ALL)]) == []
    found = obstacles_to_away("b1", facts, [ledger(7, ALL, quorums=(3, 3, 3)), ledger(8, ALL)])
    assert found == ["ledgers 7 would have no ack quorum, and no spare bookie"]
    closed = ledger(7, ALL, quorums=(3, 3, 3), end=5)
    assert obstacles_to_away("b1", facts, [closed]) == []


def test_the_only_copy_that_is_up_stays() -> None:
    facts = cluster(B1, bookie("b2", up=False), B4)
    single = ledger(7, ("b1",), quorums=(1, 1, 1), end=5)
    empty = ledger(8, ("b1",), quorums=(1, 1, 1), end=-1)
    assert "ledgers 7 have no other copy that is up" in obstacles_to_away(
        "b1", facts, [single, empty]
    )
    moved = ledger(9, ("b1", "b2"), ("b4", "b2"), quorums=(2, 2, 1))
    assert "ledgers 9 have no other copy that is up" in obstacles_to_away("b1", facts, [moved])


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (bookie("b2", up=False), "silent"),
        (bookie("b2", up=False, heard=9e9), "lost"),
        (bookie("b2", standing=AWAY, writable=False), "away"),
    ],
)
def test_one_host_at_a_time(other: object, said: str) -> None:
    facts = cluster(B1, other, B3, B4)  # type: ignore[arg-type]
    assert obstacles_to_away("b1", facts, []) == [f"bookie b2 on another host is {said}"]
    assert obstacles_to_away("b2", facts, []) == []


def test_what_is_named_or_serves_is_not_forgotten() -> None:
    dead = bookie("b1", up=False)
    assert obstacles_to_forget("b1", cluster(dead, B2), []) == []
    assert obstacles_to_forget("b1", cluster(dead, B2), [ledger(7, ALL)]) == ["ledgers 7 name it"]
    assert obstacles_to_forget("b2", cluster(dead, B2), []) == ["it is registered: stop it first"]


def test_the_ledgers_that_name_a_bookie_are_found() -> None:
    async def main() -> None:
        store = MemoryStore()
        records = StoredRecords(store, random.Random(1))
        for number in (1, 2, 999, 1000, 1001):
            names = ALL if number % 2 else ("b2", "b3", "b4")
            await records.create(ledger(number, names))
        seen: list[int] = []
        found = await find_naming(records, "b1", seen.append)
        assert [each.ledger for each in found] == [1, 999, 1001]
        assert seen == [3, 5]
        await store.close()

    asyncio.run(main())
