"""A retired id at the door of the bookie: no answer denies what the ledger once held."""

from __future__ import annotations

import pytest

from quire.errors import CorruptEntryError, LedgerFencedError, LedgerRetiredError
from quire.run import pack_run
from quire.storage import held
from quire.storage.entries.retired import Intervals, RetiredIds
from tests.storage.scene import KEY, Scene, drive, run_of, sealed

GONE, KEPT = 3, 4


async def retired() -> Scene:
    scene = Scene()
    node = await scene.start()
    for ledger in (GONE, KEPT):
        await node.add(ledger, KEY, run_of(ledger, 0, 1))
    await node._storage.retire([GONE])
    return scene


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("fence_key", [None, KEY])
def test_a_read_of_a_retired_ledger_is_no_absence(
    *, is_restarted: bool, fence_key: bytes | None
) -> None:
    """P2: a recovery that took the answer for "no such entry" would end the ledger before it."""

    async def main() -> None:
        scene = await retired()
        if is_restarted:
            await scene.close()
            await scene.start()
        with pytest.raises(LedgerRetiredError):
            await scene.node.read(GONE, 0, 0, fence_key=fence_key)
        assert await scene.node.read(KEPT, 0, 1) == run_of(KEPT, 0, 1)
        await scene.close()

    drive(main())


def test_a_force_that_meets_a_retirement_vouches_for_nothing() -> None:
    """The ledger is retired while the force waits for the journal."""

    async def main() -> None:
        scene = await retired()
        node = scene.node
        settle = node._engine.settle

        async def settle_and_retire() -> None:
            await settle()
            await node._storage.retire([KEPT])

        node._engine.settle = settle_and_retire  # type: ignore[method-assign]
        with pytest.raises(LedgerFencedError):
            await node.sync(KEPT, KEY, 0, 1)
        await scene.close()

    drive(main())


def test_a_joined_set_keeps_what_was_disowned() -> None:
    ids = RetiredIds(Intervals.of([(1, 2)]), Intervals.of([(7, 9)]))
    joined = ids.joined([(3, 3)])
    assert joined == RetiredIds(Intervals.of([(1, 3)]), Intervals.of([(7, 9)]))
    assert (ids.highest, joined.highest) == (9, 9)
    assert RetiredIds(Intervals.of([(11, 11)]), Intervals.of([(7, 9)])).highest == 11


def test_other_bytes_are_found_after_a_damaged_entry_too() -> None:
    """A damaged copy may be replaced, and says nothing about the entries after it."""

    async def main() -> None:
        scene = await retired()
        node = scene.node
        look, damaged = node._storage.read, [0]

        async def read(ledger: int, first: int, last: int, bytes_max: int) -> bytes | None:
            if damaged and first == damaged[0]:
                raise CorruptEntryError(ledger, damaged.pop(), "damaged by order of the test")
            return await look(ledger, first, last, bytes_max)

        node._storage.read = read  # type: ignore[method-assign]
        with pytest.raises(CorruptEntryError, match="entry 1"):
            await node.add(KEPT, KEY, run_of(KEPT, 0, 1, payload=b"other"))
        assert not damaged
        await scene.close()

    drive(main())


def test_other_bytes_are_found_beyond_what_one_read_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        monkeypatch.setattr(held, "READ_BYTES_MAX", 1)
        scene = await retired()
        run = pack_run([sealed(KEPT, 0), sealed(KEPT, 1, b"other")])
        with pytest.raises(CorruptEntryError, match="entry 1"):
            await scene.node.add(KEPT, KEY, run)
        await scene.node.add(KEPT, KEY, run_of(KEPT, 0, 1))
        assert await scene.entries(KEPT) == {0: sealed(KEPT, 0), 1: sealed(KEPT, 1)}
        await scene.close()

    drive(main())
