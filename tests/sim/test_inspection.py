"""What bookies vouch for at the end of a simulated run."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from quire.entry import DigestKind
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from tests.sim.history import Violation
from tests.sim.inspection import inspect

CLOSED = LedgerMetadata(
    *(7, Replication(3, 3, 2), DigestKind.CRC32C, "0" * 64),
    *((Fragment(0, ("a", "b", "c")),), LedgerState.CLOSED, 9, 100),
)


def world_of(bookie: str, *copying: tuple[str, int]) -> Any:
    """A cluster with one bookie, which was never hurt and doubts every ledger."""
    machine = SimpleNamespace(name=bookie, node=SimpleNamespace(doubts=lambda _: True))
    return SimpleNamespace(
        bookies=[machine],
        budget=SimpleNamespace(lost=set()),
        copying={*copying},
        is_hurt=lambda _: False,
    )


@pytest.mark.parametrize("bookie", ["a", "d"])
def test_a_bookie_that_was_not_hurt_doubts_only_what_it_copies(bookie: str) -> None:
    with pytest.raises(Violation, match="limbo has a cause"):
        asyncio.run(inspect(world_of(bookie, (bookie, 8)), CLOSED, []))


def test_a_bookie_that_was_asked_at_the_end_does_not_vouch_yet() -> None:
    final = asyncio.run(inspect(world_of("d", ("d", 7)), CLOSED, []))
    assert (final.copies, final.hints) == ({}, {})
