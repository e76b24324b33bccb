"""Places that a bookie is asked to take, and the key that it must know first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from quire.entry import LedgerId, key_check
from quire.errors import UnauthorizedError
from quire.storage.entries.entry_log import entries_path
from quire.storage.maintenance.replicas_port import Order, Owed, Stretch
from tests.storage.maintenance.fakes import FAST, FakeCopies, FakeOrders, all_to
from tests.storage.salvage_scene import loaded, salvaged
from tests.storage.scene import KEY, OTHER_KEY, Scene, drive, run_of


def test_a_place_that_is_asked_for_after_the_orders_were_read_waits_for_its_key() -> None:
    """The way to copies tells of newer assignments than the orders that were read before it."""

    async def main() -> None:
        scene = await loaded()
        await salvaged(scene)
        node = await scene.start()
        copies, orders = FakeCopies({50: all_to(9)}), FakeOrders([])
        mender = node.mender(copies.open, orders)
        node._storage.state(50)  # as of entries in a file, whose state was in a lost file
        assert 50 in node._storage.limbo()
        await mender._take_orders()
        await mender.round()
        assert copies.taken == []
        orders.orders.append(Order(50, key_check(KEY)))
        await mender._take_orders()
        await mender.round()
        assert copies.taken == [50]
        with pytest.raises(UnauthorizedError):
            await node.add(50, OTHER_KEY, run_of(50, 10), recovery=True)
        await scene.close()

    drive(main())


def test_entries_under_another_key_take_no_place() -> None:
    """A stranger may begin a ledger at a bookie that has no place in it. Its entries are not those
    of the ledger, and another bookie's copies would go for them. That stays so after a restart,
    when the bookie cannot read its orders yet.
    """

    async def main() -> None:
        scene = Scene(options=FAST)
        node = await scene.start()
        await node.add(50, OTHER_KEY, run_of(50, *range(10), payload=b"forged"))
        copies = FakeCopies({50: replace(all_to(11), key_check=key_check(KEY))})
        orders = FakeOrders([Order(50, key_check(KEY))])
        for _ in range(2):
            mender = node.mender(copies.open, orders)
            await mender._take_orders()
            await mender.round()
            assert (copies.taken, node._storage.limbo()) == ([], [50])
            assert mender.counts.failures == 1
            assert copies.asked == [], "the stranger could read them"
            await scene.close()
            node, orders.is_away = await scene.start(), True
        await scene.close()

    drive(main())


@dataclass
class MovingPlace(FakeCopies):
    """A place that another bookie gives back after the first question."""

    told: list[Owed] = field(default_factory=list)

    async def owed(self, ledger: LedgerId) -> Owed:
        """See `Copies.owed`."""
        self.told.append(Owed((Stretch(0, 8 if self.told else 4, 2, (0,)),), is_final=True))
        return self.told[-1]


def test_a_place_that_is_given_back_while_damage_is_repaired_is_counted_first() -> None:
    """A place is taken of the last statement of what the bookie owes: a repair makes no other."""

    async def main() -> None:
        scene = Scene(options=FAST)
        await scene.start()
        await scene.node.add(50, KEY, run_of(50, 0, 2, 4))
        await scene.close()
        node = await scene.start()
        (chunk,) = node._storage.chunks(50)
        scene.disk.rot(entries_path(chunk.file), chunk.offset + 60)
        copies = MovingPlace({})
        mender = node.mender(copies.open, FakeOrders([Order(50, key_check(KEY))]))
        await mender._take_orders()
        await mender.round()
        assert copies.taken == [50]
        owed = set(copies.told[-1].within(0, 8))
        assert owed <= (await scene.entries(50)).keys()
        await scene.close()

    drive(main())
