"""A bookie forgets what others hold: after a pause, by proof, and never against an order."""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from quire.entry import key_check
from quire.errors import (
    EntryUnknownError,
    LedgerDisownedError,
    QuireError,
    StoreUnavailableError,
    StoreWentBackError,
)
from quire.observer import Observer
from quire.storage.entries.retired_file import RetiredFile
from quire.storage.maintenance import disowning
from quire.storage.maintenance.disowning import Suspects
from quire.storage.maintenance.garbage import Collector
from tests.storage.scene import KEY, SMALL, Scene, run_of
from tests.support.virtual import virtually

HOUR = 3600.0
HELD = (3, 4, 5)


class NothingDeleted:
    async def deleted(self, ledgers: Sequence[int]) -> list[int]:
        return []


@dataclass
class Cluster:
    """The rest of a cluster, by heart."""

    unnamed_: set[int] = field(default_factory=set)
    short: set[int] = field(default_factory=set)
    error: QuireError | None = None
    looked: list[list[int]] = field(default_factory=list)
    asked: list[list[int]] = field(default_factory=list)

    async def unnamed(self, ledgers: Sequence[int]) -> list[int]:
        self.looked.append(list(ledgers))
        if self.error is not None:
            raise self.error
        return [each for each in ledgers if each in self.unnamed_]

    async def proved(self, ledgers: Sequence[int]) -> list[int]:
        self.asked.append(list(ledgers))
        return [each for each in ledgers if each in self.unnamed_ - self.short]


@dataclass
class Told(Observer):
    gone: list[int] = field(default_factory=list)

    def disowned(self, ledger: int) -> None:
        self.gone.append(ledger)


@dataclass
class Bookie:
    """A bookie with three ledgers, and a collector that tests let go round."""

    scene: Scene
    cluster: Cluster
    collector: Collector
    told: Told

    @property
    def held(self) -> set[int]:
        return set(self.scene.node._storage.states)


async def bookie(*unnamed: int) -> Bookie:
    told = Told()
    scene = Scene(options=replace(SMALL, disown_seconds=HOUR), observer=told)
    node = await scene.start()
    for ledger in HELD:
        await node.add(ledger, KEY, run_of(ledger, 0, 1))
    cluster = Cluster(set(unnamed))
    return Bookie(scene, cluster, node.collector(NothingDeleted(), cluster), told)


def test_a_ledger_is_given_up_an_hour_after_it_was_seen_unnamed() -> None:
    async def main() -> None:
        it = await bookie(3)
        await it.collector.round()
        assert it.held == {3, 4, 5}
        await sleep(HOUR - 1)
        await it.collector.round()
        assert (it.held, it.cluster.asked) == ({3, 4, 5}, [])
        await sleep(1)
        await it.collector.round()
        assert (it.held, it.cluster.asked, it.told.gone) == ({4, 5}, [[3]], [3])
        with pytest.raises(LedgerDisownedError):
            await it.scene.node.read(3, 0, 1)
        assert (await it.scene.node.info()).counters["disowning_ledgers"] == 1
        await it.scene.close()

    virtually(main)


def test_a_ledger_that_was_named_meanwhile_begins_anew() -> None:
    async def main() -> None:
        it = await bookie(3)
        await it.collector.round()
        it.cluster.unnamed_.clear()
        await it.collector.round()
        it.cluster.unnamed_.add(3)
        await sleep(HOUR)
        await it.collector.round()
        assert (it.held, it.cluster.asked) == ({3, 4, 5}, [])
        await it.scene.close()

    virtually(main)


def test_what_cannot_be_proved_waits_for_another_hour() -> None:
    async def main() -> None:
        it = await bookie(3, 4)
        it.cluster.short.add(4)
        await it.collector.round()
        await sleep(HOUR)
        await it.collector.round()
        it.cluster.short.clear()
        await it.collector.round()
        assert (it.held, it.cluster.asked) == ({4, 5}, [[3, 4]])
        await sleep(HOUR)
        await it.collector.round()
        assert it.held == {5}
        await it.scene.close()

    virtually(main)


def test_an_order_that_comes_during_the_proof_keeps_the_ledger() -> None:
    async def main() -> None:
        it = await bookie(3)
        storage, proved = it.scene.node._storage, it.cluster.proved

        async def meanwhile(ledgers: Sequence[int]) -> list[int]:
            storage.doubt(3, key_check(KEY))
            storage.clear(3)
            return await proved(ledgers)

        it.cluster.proved = meanwhile  # type: ignore[method-assign]
        await it.collector.round()
        await sleep(HOUR)
        await it.collector.round()
        assert (it.held, it.told.gone) == ({3, 4, 5}, [])
        await it.scene.close()

    virtually(main)


def test_an_order_that_comes_while_the_id_is_written_keeps_the_ledger_and_its_end_is_unknown() -> (
    None
):
    async def main() -> None:
        it = await bookie(3)
        storage = it.scene.node._storage
        keep = storage._keep

        async def meanwhile(file: RetiredFile) -> None:
            storage.doubt(3, key_check(KEY))
            await keep(file)

        storage._keep = meanwhile  # type: ignore[method-assign]
        assert await storage.disown([3], ()) == []
        assert it.held == {3, 4, 5}
        assert storage.is_disowned(3), "until the mender has it whole"
        with pytest.raises(EntryUnknownError):
            await it.scene.node.wait_tail(3, -2, 0.0)
        with pytest.raises(LedgerDisownedError):
            await it.scene.node.read_tail(3)
        await it.scene.close()

    virtually(main)


def test_a_ledger_in_limbo_is_not_even_looked_at() -> None:
    async def main() -> None:
        it = await bookie(3)
        it.scene.node._storage.doubt(3, key_check(KEY))
        await it.collector.round()
        assert it.cluster.looked == [[4, 5]]
        await it.scene.close()

    virtually(main)


@pytest.mark.parametrize(
    ("error", "is_anew"),
    [(StoreUnavailableError("store", "away"), False), (StoreWentBackError("store", "old"), True)],
)
def test_a_store_that_went_back_begins_anew_and_one_that_is_away_does_not(
    error: QuireError, is_anew: bool
) -> None:
    async def main() -> None:
        it = await bookie(3)
        await it.collector.round()
        it.cluster.error = error
        await sleep(HOUR)
        await it.collector.round()
        assert (it.held, it.cluster.asked) == ({3, 4, 5}, [])
        it.cluster.error = None
        await it.collector.round()
        assert it.held == ({3, 4, 5} if is_anew else {4, 5})
        await it.scene.close()

    virtually(main)


def test_a_round_looks_at_some_ledgers_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        monkeypatch.setattr(disowning, "LOOKED_MAX", 2)
        monkeypatch.setattr(disowning, "PROVED_MAX", 1)
        it = await bookie(3, 5)
        for _ in range(3):
            await it.collector.round()
        assert it.cluster.looked == [[3, 4], [5], [3, 4]]
        await sleep(HOUR)
        await it.collector.round()
        await it.collector.round()
        assert (it.cluster.asked, it.held) == ([[3], [5]], {4})
        await it.scene.close()

    virtually(main)


def test_a_ledger_that_goes_otherwise_is_forgotten_by_the_looks() -> None:
    async def main() -> None:
        it = await bookie(3)
        await it.collector.round()
        await it.scene.node._storage.retire([3])
        await sleep(HOUR)
        await it.collector.round()
        assert it.collector.disowner is not None
        assert len(it.collector.disowner._suspects) == 0
        assert it.cluster.asked == []
        await it.scene.close()

    virtually(main)


def test_suspects_are_due_in_the_order_they_were_seen() -> None:
    suspects = Suspects(10.0)
    suspects.saw([3, 4, 5], [5, 4], 0.0)
    suspects.saw([3, 4], [3, 4], 5.0)
    assert suspects.due(9.9) == []
    assert suspects.due(10.0) == [4, 5]
    assert suspects.due(15.0) == [4, 5, 3]
    suspects.begin_anew([4], 15.0)
    suspects.forget([5])
    assert suspects.due(24.0) == [3]
    suspects.clear()
    assert len(suspects) == 0
