"""Ids of entries that a bookie holds: ascending ranges, noted fast, and let go of."""

from __future__ import annotations

import pytest

from quire.bookie import BookieAddress
from quire.bookkeeper import held
from quire.bookkeeper.apache_bookie import ApacheBookie
from quire.bookkeeper.held import Acknowledged, HeldIds
from quire.entry import DigestKind, Sealer
from quire.run import pack_run
from tests.support.apache_bookie import FakeApacheBookie

LEDGER = 7
SEALER = Sealer(LEDGER, DigestKind.CRC32C, b"")
KEY = SEALER.access_key


def run_of(*entries: int) -> bytes:
    return pack_run(SEALER.seal(each, each - 1, 1 << 40, b"x") for each in entries)


def test_the_entries_of_a_stripe_are_noted_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To sort all ranges for each entry took a second for each run of a long ledger."""

    def sort(*_: object) -> list[tuple[int, int]]:
        raise AssertionError("ids that ascend are in their order")

    monkeypatch.setattr(held, "sorted", sort, raising=False)
    ids = HeldIds()
    for entry in range(0, 20, 2):
        ids.add(entry)
    assert ids.ranges() == [(entry, entry) for entry in range(0, 20, 2)]


def test_ids_out_of_order_are_joined() -> None:
    ids = HeldIds()
    for first, last in ((5, 6), (9, 9), (0, 1), (7, 8), (1, 5)):
        ids.add(first, last)
    assert ids.ranges() == [(0, 9)]


async def test_a_sync_lets_go_of_the_entries_before_it() -> None:
    far = FakeApacheBookie()
    bookie = ApacheBookie(BookieAddress("b1", "b1:3181"), connect=far.connect)
    await bookie.add(LEDGER, KEY, run_of(0, 1, 3, 4, 6, 7), deferred=True)
    assert await bookie.sync(LEDGER, KEY, 0, 4) == [(0, 1), (3, 4)]
    assert await bookie.sync(LEDGER, KEY, 4, 7) == [(4, 4), (6, 7)]
    assert bookie._acknowledged.within(LEDGER, 0, 7).ranges() == [(4, 4), (6, 7)]
    assert await bookie.sync(LEDGER, KEY, 0, 7) == [(0, 1), (3, 4), (6, 7)], "they are read"
    await bookie.close()


def test_ids_below_an_entry_are_forgotten() -> None:
    noted = Acknowledged()
    noted.note(LEDGER, range(10), None)
    noted.forget_before(LEDGER, 4)
    noted.forget_before(LEDGER + 1, 4)
    assert noted.within(LEDGER, 0, 9).ranges() == [(4, 9)]
    noted.forget_before(LEDGER, 10)
    noted.note(LEDGER, range(10, 12), None)
    assert noted.within(LEDGER, 0, 99).ranges() == [(10, 11)]
