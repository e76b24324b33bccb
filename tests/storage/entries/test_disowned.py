"""A ledger that others hold is forgotten, and may come back: no crash loses wanted copies."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.entry import key_check
from quire.errors import LedgerDisownedError, LedgerFencedError, ReadOnlyBookieError
from quire.observer import Source
from quire.run import scan_run
from quire.storage.entries import ledger_storage
from quire.storage.entries.checkpoint import write_checkpoint
from quire.storage.entries.retired import Intervals, RetiredIds
from quire.storage.entries.retired_file import RetiredFile, write_retired
from quire.storage.offline.salvage import Doubt
from tests.sim.disk import Cut
from tests.storage.salvage_scene import salvaged
from tests.storage.scene import KEY, Scene, drive, run_of

GONE, KEPT = 3, 4
NOBODY: frozenset[int] = frozenset()


async def with_two_ledgers(scene: Scene | None = None) -> Scene:
    scene = scene or Scene()
    node = await scene.start()
    for ledger in (GONE, KEPT):
        await node.add(ledger, KEY, run_of(ledger, 0, 1, 2))
        await node.read_tail(ledger, fence_key=KEY)
    return scene


async def copy_again(scene: Scene) -> None:
    """Take a ledger again as the mender does, up to where a record may name the bookie."""
    storage, engine = scene.node._storage, scene.node._engine
    storage.doubt(GONE, key_check(KEY))
    run = run_of(GONE, 0, 1, 2)
    await engine.append_run(run, scan_run(run), Source.COPY)
    assert await engine.upkeep.flush()
    await storage.own(GONE)


@given(st.sets(st.integers(0, 12)), st.integers(0, 12))
def test_one_id_can_be_taken_out(ids: set[int], one: int) -> None:
    found = Intervals.of((each, each) for each in ids)
    found.remove(one)
    assert found == Intervals.of((each, each) for each in ids - {one})
    assert found.are_sound()


def test_owning_keeps_all_else() -> None:
    ids = RetiredIds(Intervals.of([(1, 2)]), Intervals.of([(7, 9)]))
    assert ids.owning(8) == RetiredIds(Intervals.of([(1, 2)]), Intervals.of([(7, 7), (9, 9)]))
    assert ids.disowning([5, 6]) == RetiredIds(Intervals.of([(1, 2)]), Intervals.of([(5, 9)]))
    assert ids == RetiredIds(Intervals.of([(1, 2)]), Intervals.of([(7, 9)]))


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_is_given_up_is_gone_and_stays_fenced(*, is_restarted: bool) -> None:
    async def main() -> None:
        scene = await with_two_ledgers()
        assert await scene.node._storage.disown([GONE], NOBODY) == [GONE]
        if is_restarted:
            await scene.close()
            await scene.start()
        with pytest.raises(LedgerDisownedError):
            await scene.node.read(GONE, 0, 2)
        with pytest.raises(LedgerFencedError):
            await scene.node.add(GONE, KEY, run_of(GONE, 3))
        assert (await scene.node.wait_tail(GONE, 0, 60.0)).fenced
        assert not await scene.node.list_entries(GONE)
        assert len(await scene.entries(KEPT)) == 3
        assert scene.node.knows(GONE)
        await scene.close()

    drive(main())


def test_a_ledger_that_is_doubted_after_the_proof_began_is_kept() -> None:
    """The order may have been carried out since: the record may name the bookie (BK #4668)."""

    async def main() -> None:
        scene = await with_two_ledgers()
        storage = scene.node._storage
        doubted = storage.note_doubts()
        storage.doubt(GONE, key_check(KEY))
        assert await scene.node._engine.upkeep.flush()
        storage.clear(GONE)  # whole, and the record names the bookie now
        assert await storage.disown([GONE, KEPT], doubted) == [KEPT]
        assert len(await scene.entries(GONE)) == 3
        assert await storage.disown([GONE], storage.note_doubts()) == [GONE]
        await scene.close()

    drive(main())


def test_a_ledger_in_limbo_is_kept() -> None:
    async def main() -> None:
        scene = await with_two_ledgers()
        storage = scene.node._storage
        storage.doubt(GONE, key_check(KEY))
        assert await storage.disown([GONE], NOBODY) == []
        assert GONE not in storage.retired.disowned
        await scene.close()

    drive(main())


def test_an_order_during_the_write_of_the_ids_keeps_the_ledger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        scene = await with_two_ledgers()
        storage, write = scene.node._storage, write_retired

        async def meanwhile(*args: object) -> None:
            await write(*args)  # type: ignore[arg-type]
            storage.doubt(GONE, key_check(KEY))

        monkeypatch.setattr(ledger_storage, "write_retired", meanwhile)
        assert await storage.disown([GONE], NOBODY) == []
        monkeypatch.undo()
        assert storage.states[GONE].in_limbo
        await copy_again(scene)
        storage.clear(GONE)
        await scene.close()
        await scene.start()
        assert len(await scene.entries(GONE)) == 3
        await scene.close()

    drive(main())


@pytest.mark.parametrize("is_written", [False, True])
def test_ids_whose_write_failed_are_owned_again_before_they_are_counted_on(
    monkeypatch: pytest.MonkeyPatch, *, is_written: bool
) -> None:
    """The file may be whole although the write failed: the next start would believe it."""

    async def main() -> None:
        scene = await with_two_ledgers()
        storage, write = scene.node._storage, write_retired

        async def failing(*args: object) -> None:
            if is_written:
                await write(*args)  # type: ignore[arg-type]
            raise OSError(errno.ENOSPC, "no space")

        monkeypatch.setattr(ledger_storage, "write_retired", failing)
        with pytest.raises(OSError, match="no space"):
            await storage.disown([GONE], NOBODY)
        monkeypatch.undo()
        assert len(await scene.entries(GONE)) == 3
        await copy_again(scene)
        storage.clear(GONE)
        assert await scene.node._engine.upkeep.flush()
        await scene.kill()
        await scene.start()
        assert len(await scene.entries(GONE)) == 3
        await scene.close()

    drive(main())


def test_a_full_disk_keeps_a_disowned_ledger_disowned(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        scene = await with_two_ledgers()
        storage, write = scene.node._storage, write_checkpoint
        await storage.disown([GONE], NOBODY)

        async def failing(*_: object) -> None:
            raise OSError(errno.ENOSPC, "no space")

        monkeypatch.setattr(ledger_storage, "write_checkpoint", failing)
        with pytest.raises(OSError, match="no space"):
            await storage.own(GONE)
        assert storage.is_disowned(GONE)
        monkeypatch.setattr(ledger_storage, "write_checkpoint", write)
        await storage.own(GONE)
        assert not storage.is_disowned(GONE)
        await scene.close()

    drive(main())


@dataclass
class Progress:
    """How far the workload came."""

    is_owned: bool = False
    """A record may name the bookie."""
    is_disowned: bool = field(default=False)


async def give_up_and_take_again(scene: Scene, progress: Progress) -> None:
    storage = scene.node._storage
    await storage.disown([GONE], NOBODY)
    progress.is_disowned = True
    await copy_again(scene)
    progress.is_owned = True
    storage.clear(GONE)
    await scene.node._engine.upkeep.flush()
    await scene.node.add(KEPT, KEY, run_of(KEPT, 2), recovery=True)
    await scene.node._engine.upkeep.flush()


@pytest.mark.parametrize("cut", list(Cut))
@pytest.mark.slow
def test_a_power_cut_at_any_change_loses_no_wanted_copy(cut: Cut) -> None:
    """Each step of giving up, copying again and owning is cut once."""

    async def main() -> None:
        is_done, change = False, 0
        while not is_done:
            change += 1
            scene, progress = await with_two_ledgers(Scene(seed=change)), Progress()
            is_done = await scene.cut_short(change, give_up_and_take_again(scene, progress), cut)
            await scene.node.abort()
            scene.disk.halt_never()
            node = await scene.start()
            if progress.is_owned:
                assert len(await scene.entries(GONE)) == 3, change
                assert not node._storage.is_disowned(GONE)
            elif progress.is_disowned:
                with pytest.raises((LedgerFencedError, ReadOnlyBookieError)):
                    await node.add(GONE, KEY, run_of(GONE, 3))
            assert len(await scene.entries(KEPT)) == 3
            await scene.close()
        assert change > 20

    drive(main())


def test_what_the_journal_holds_of_a_disowned_ledger_stays_away() -> None:
    async def main() -> None:
        scene = await with_two_ledgers()
        await scene.node._storage.disown([GONE], NOBODY)
        await scene.kill()  # nothing was flushed: the journal has all entries, fence and key
        node = await scene.start()
        assert GONE not in node._storage.states
        assert GONE not in node._storage.shelf.ledgers
        with pytest.raises(LedgerDisownedError):
            await node.read(GONE, 0, 2)
        await scene.close()

    drive(main())


def test_copies_that_are_being_made_again_survive_a_start() -> None:
    async def main() -> None:
        scene = await with_two_ledgers()
        storage, engine = scene.node._storage, scene.node._engine
        await storage.disown([GONE], NOBODY)
        storage.doubt(GONE, key_check(KEY))
        run = run_of(GONE, 0, 1, 2)
        await engine.append_run(run, scan_run(run), Source.COPY)
        assert await engine.upkeep.flush()
        await scene.kill()
        node = await scene.start()
        assert node.doubts(GONE)
        assert len(await scene.entries(GONE)) == 3
        with pytest.raises(LedgerFencedError):
            await node.add(GONE, KEY, run_of(GONE, 3))
        await scene.close()

    drive(main())


def test_a_repair_doubts_a_named_ledger_that_an_old_file_calls_disowned() -> None:
    async def main() -> None:
        scene = await with_two_ledgers()
        await scene.node._storage.disown([GONE], NOBODY)
        await scene.close()
        await salvaged(scene, Doubt(GONE, key_check(KEY)))
        node = await scene.start()
        assert node.doubts(GONE)
        await scene.close()

    drive(main())


def test_the_next_generation_keeps_what_it_is_not_given() -> None:
    file = RetiredFile(3, 7, RetiredIds(disowned=Intervals.of([(5, 5)])))
    assert file.next(ids=file.ids.owning(5)) == RetiredFile(4, 7, RetiredIds())
