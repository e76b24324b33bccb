"""Full quorum: a closed ledger has every entry on its whole write set, whoever closed it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.entry import DigestKind, EntryId
from quire.errors import BookieBusyError, CorruptEntryError, NotEnoughBookiesError, QuireError
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.replicate_fragments import runs, stretches
from quire.run import pack_run
from quire.testing.sim.policy import Policy
from tests.support.memory_cluster import MemoryCluster, down
from tests.support.virtual import virtually

OPTIONS = LedgerOptions(request_timeout=1.0, quarantine=1.0)
PATIENCE = 0.2
STRIPED = [Replication(3, 2, 1), Replication(4, 3, 2), Replication(5, 3, 2)]
SHAPES = [Replication(3, 3, 2), Replication(2, 1, 1), *STRIPED]


def is_full(cluster: MemoryCluster, metadata: LedgerMetadata) -> bool:
    assert metadata.last_entry is not None
    return all(
        set(metadata.write_set(entry)) <= set(cluster.holders(metadata.ledger, entry))
        for entry in range(metadata.last_entry + 1)
    )


def of(shape: Replication) -> LedgerMetadata:
    bookies = tuple(f"b{number}" for number in range(shape.ensemble))
    return LedgerMetadata(7, shape, DigestKind.CRC32C, "", (Fragment(0, bookies),))


@given(
    st.sampled_from(SHAPES),
    st.integers(0, 1),
    st.sets(st.integers(0, 30)),
    st.integers(0, 10),
    st.integers(-1, 30),
)
def test_what_a_position_lacks(
    shape: Replication, position: int, held: set[EntryId], first: int, last: int
) -> None:
    ranges = [(entry, entry) for entry in sorted(held)]
    found = list(stretches(of(shape), position, first, last, ranges))
    mine = [e for e in range(first, last + 1) if shape.is_written_to(e, position)]
    within = [e for low, high in found for e in range(low, high + 1)]
    assert [e for e in within if e in mine] == [e for e in mine if e not in held]
    assert within == sorted(set(within))
    assert all(low in mine and high in mine for low, high in found)
    for (_, high), (low, _) in pairwise(found):
        assert any(e in mine for e in range(high + 1, low)), "they could be read at once"


def test_a_long_stretch_is_no_list_of_its_entries() -> None:
    found = list(stretches(of(Replication(3, 3, 2)), 1, 0, 10**12, [(5, 10**6)]))
    assert found == [(0, 4), (10**6 + 1, 10**12)]


@given(st.lists(st.binary(max_size=9)))
def test_runs_are_of_a_size_that_bookies_take(frames: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quire.ledger.replicate_fragments.RUN_BYTES_MAX", 7)
        cut = list(runs(iter(frames)))
    assert b"".join(cut) == pack_run(frames)
    assert all(len(run) <= 7 + 4 * 7 or run[4:] in frames for run in cut if b"" not in frames)


@pytest.mark.parametrize("shape", [Replication(3, 3, 2), *STRIPED], ids=str)
def test_what_is_missing_is_given_in_a_few_runs(shape: Replication) -> None:
    async def main() -> None:
        async with MemoryCluster(shape.ensemble, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(shape, full_quorum=True)
            away = cluster.bookies[writer._metadata.last_fragment.bookies[1]]
            away.before = down("add")
            await writer.append_many([b"%d" % number for number in range(600)])
            asked = Counter[str]()

            async def counting(method: str, ledger: int) -> None:
                asked[method] += 1

            for bookie in cluster.bookies.values():
                bookie.before = counting
            writer.abandon()
            reader = await cluster.catalog.open(writer.ledger)
            assert reader._metadata.last_entry == 599
            assert is_full(cluster, reader._metadata)
            assert asked["add"] < 12
            assert asked["read"] < 40

    virtually(main)


@pytest.mark.parametrize("method", ["list_entries", "add", "read"])
def test_a_busy_bookie_has_not_failed(method: str) -> None:
    async def main() -> None:
        async with MemoryCluster(3, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=True)
            ensemble = writer._metadata.last_fragment.bookies
            cluster.bookies[ensemble[0]].before = down("add")
            await writer.append(b"x")
            until = asyncio.get_running_loop().time() + (0.1 if method == "read" else 0.8)

            async def busy(asked: str, ledger: int) -> None:
                if asked == method and asyncio.get_running_loop().time() < until:
                    raise BookieBusyError("hooked", "by order of the test")

            for bookie in cluster.bookies.values():
                bookie.before = busy
            await writer.close()
            metadata = await cluster.catalog.metadata(writer.ledger)
            assert metadata.last_fragment.bookies == ensemble
            assert is_full(cluster, metadata)

    virtually(main)


def test_a_bookie_that_is_busy_for_the_time_of_a_request_is_replaced() -> None:
    async def main() -> None:
        async with MemoryCluster(4, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=True)
            busy = writer._metadata.last_fragment.bookies[0]
            writer.abandon()
            other = await cluster.catalog.create(full_quorum=True)
            busy = other._metadata.last_fragment.bookies[0]

            async def refuse(method: str, ledger: int) -> None:
                if method in ("add", "list_entries"):
                    raise BookieBusyError(busy, "by order of the test")

            await other.append(b"x")
            other.abandon()
            cluster.bookies[busy].before = refuse
            reader = await cluster.catalog.open(other.ledger)
            assert busy not in reader._metadata.last_fragment.bookies
            assert is_full(cluster, reader._metadata)

    virtually(main)


def test_positions_are_completed_at_once() -> None:
    async def main() -> None:
        shape, loop = Replication(5, 5, 3), asyncio.get_running_loop()
        async with MemoryCluster(5, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(shape, full_quorum=True)
            late = [cluster.bookies[each] for each in writer._metadata.last_fragment.bookies[:2]]
            for bookie in late:
                bookie.before = down("add")
            await writer.append(b"x")

            async def slow(method: str, ledger: int) -> None:
                await asyncio.sleep(0.9 if method == "add" else 0)

            for bookie in late:
                bookie.before = slow
            began = loop.time()
            await writer.close()
            assert loop.time() - began < 1.5
            assert is_full(cluster, await cluster.catalog.metadata(writer.ledger))

    virtually(main)


def test_a_bookie_that_was_away_is_given_what_it_missed_before_the_writer_closes() -> None:
    async def main(full_quorum: bool) -> bool:
        async with MemoryCluster(3, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=full_quorum)
            assert writer._metadata.full_quorum is full_quorum
            away = writer._metadata.last_fragment.bookies[1]
            await writer.append(b"a")
            cluster.bookies[away].before = down("add")
            await writer.append(b"b")
            cluster.bookies[away].before = down("nothing")
            await asyncio.sleep(PATIENCE)
            await writer.append(b"c")
            await writer.close()
            return is_full(cluster, await cluster.catalog.metadata(writer.ledger))

    assert virtually(lambda: main(True))
    assert not virtually(lambda: main(False)), "without the option Qa copies are enough"


def test_nothing_is_copied_that_a_later_piece_of_a_list_names() -> None:
    async def main() -> None:
        async with MemoryCluster(4, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(Replication(4, 3, 2), full_quorum=True)
            bookies = writer._metadata.last_fragment.bookies
            await writer.append_many([b"x"] * 12)
            cluster.bookies[bookies[0]].before = down("add")
            await writer.append(b"x")
            cluster.bookies[bookies[0]].before = down("nothing")
            await asyncio.sleep(PATIENCE)
            copied: list[str] = []

            async def before(method: str, ledger: int) -> None:
                copied.extend([method] if method == "add" else [])

            for bookie in bookies[1:]:
                cluster.bookies[bookie].before = before
            for each in cluster.bookies.values():
                each.ranges_max = 1
            await writer.close()
            assert is_full(cluster, await cluster.catalog.metadata(writer.ledger))
            assert copied == []

    virtually(main)


def test_a_bookie_that_cannot_say_what_it_holds_is_given_all_of_it_again() -> None:
    """Found by the simulator: of a ledger on all bookies there are, none could take its place."""

    async def main() -> None:
        async with MemoryCluster(3, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=True)
            damaged = writer._metadata.last_fragment.bookies[1]
            cluster.bookies[damaged].before = down("add")
            await writer.append(b"a")
            await writer.append(b"b")

            async def before(method: str, ledger: int) -> None:
                if method == "list_entries":
                    raise CorruptEntryError(ledger, 0, "its chunk fails its checksum")

            cluster.bookies[damaged].before = before
            await writer.close()
            assert is_full(cluster, await cluster.catalog.metadata(writer.ledger))

    virtually(main)


def test_a_bookie_lost_for_good_is_replaced_in_every_fragment() -> None:
    async def main() -> None:
        async with MemoryCluster(5, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(Replication(3, 3, 2), full_quorum=True)
            lost = writer._metadata.last_fragment.bookies[0]
            await writer.append(b"a")
            cluster.bookies[lost].before = down()
            await cluster.unregister(lost)
            await writer.append(b"b")
            await asyncio.sleep(PATIENCE)
            assert len(writer._metadata.fragments) == 2
            await writer.close()
            metadata = await cluster.catalog.metadata(writer.ledger)
            assert all(lost not in fragment.bookies for fragment in metadata.fragments)
            assert is_full(cluster, metadata)

    virtually(main)


def test_without_a_spare_it_is_not_closed_and_closing_can_be_repeated() -> None:
    async def main() -> None:
        async with MemoryCluster(3, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=True)
            cluster.bookies["b1"].before = down()
            await writer.append(b"a")
            with pytest.raises(NotEnoughBookiesError):
                await writer.close()
            assert not (await cluster.catalog.metadata(writer.ledger)).is_closed
            await cluster.register("b3")
            await asyncio.sleep(PATIENCE)
            await writer.close()
            assert is_full(cluster, await cluster.catalog.metadata(writer.ledger))

    virtually(main)


def test_recovery_completes_the_confirmed_part_too() -> None:
    async def main() -> None:
        async with MemoryCluster(4, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=True)
            await writer.append(b"a")
            await writer.append(b"b")
            ensemble = writer._metadata.last_fragment.bookies
            await asyncio.sleep(PATIENCE)
            writer.abandon()
            lacking = cluster.bookies[ensemble[2]].ledgers[writer.ledger]
            lacking.frames.clear()
            reader = await cluster.catalog.open(writer.ledger)
            assert [entry.payload async for entry in reader.read()] == [b"a", b"b"]
            assert is_full(cluster, reader._metadata)
            assert ensemble[2] in reader._metadata.last_fragment.bookies, "it was not replaced"

    virtually(main)


def test_a_recovery_that_cannot_complete_leaves_the_ledger_in_recovery() -> None:
    async def main() -> None:
        async with MemoryCluster(3, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=True)
            await writer.append(b"a")
            writer.abandon()
            cluster.bookies["b2"].before = down()
            with pytest.raises(NotEnoughBookiesError):
                await cluster.catalog.open(writer.ledger)
            assert (await cluster.catalog.metadata(writer.ledger)).state == "in-recovery"
            cluster.bookies["b2"].before = down("nothing")
            reader = await cluster.catalog.open(writer.ledger)
            assert is_full(cluster, reader._metadata)

    virtually(main)


def test_a_replacement_that_fails_is_replaced_in_turn() -> None:
    async def main() -> None:
        async with MemoryCluster(6, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=True)
            ensemble = writer._metadata.last_fragment.bookies
            await writer.append(b"a")
            writer.abandon()
            spares = sorted(set(cluster.bookies) - set(ensemble))
            cluster.bookies[ensemble[0]].before = down()
            for bookie in spares[:2]:
                cluster.bookies[bookie].before = down("add")
            reader = await cluster.catalog.open(writer.ledger)
            assert reader._metadata.last_fragment.bookies[0] == spares[2]
            assert is_full(cluster, reader._metadata)

    virtually(main)


def test_a_copy_equals_the_entry_that_was_confirmed() -> None:
    """Also its LAC: a later one would make two copies of an entry differ."""

    async def main() -> None:
        async with MemoryCluster(3, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=True)
            for payload in (b"a", b"b", b"c", b"d"):
                await writer.append(payload)
            await asyncio.sleep(PATIENCE)
            writer.abandon()
            whole, lacking = (cluster.bookies[each].ledgers[writer.ledger] for each in ("b0", "b2"))
            confirmed = {entry: bytes(whole.frames[entry]) for entry in range(3)}
            lacking.frames.clear()
            await cluster.catalog.open(writer.ledger)
            assert {entry: bytes(lacking.frames[entry]) for entry in range(3)} == confirmed

    virtually(main)


def test_a_bookie_that_failed_is_not_tried_again() -> None:
    async def main() -> None:
        async with MemoryCluster(5, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=True)
            ensemble = writer._metadata.last_fragment.bookies
            await writer.append(b"a")
            writer.abandon()
            cluster.bookies[ensemble[0]].before = down("add", "list_entries")
            for bookie in set(cluster.bookies) - set(ensemble):
                cluster.bookies[bookie].before = down("add")
            cluster.bookies[ensemble[0]].ledgers[writer.ledger].frames.clear()
            async with asyncio.timeout(600):
                with pytest.raises(NotEnoughBookiesError):
                    await cluster.catalog.open(writer.ledger)

    virtually(main)


def test_a_restart_that_no_call_met_leaves_no_gap_after_deferred_sync() -> None:
    """A bookie was late, lost what it had accepted, and then vouched for later entries only."""

    async def main() -> None:
        async with MemoryCluster(3, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=True, deferred_sync=True)
            late, on_time = cluster.bookies["b2"], asyncio.Event()

            async def before(method: str, ledger: int) -> None:
                if method == "add":
                    await on_time.wait()

            late.before = before
            await writer.append(b"a")
            assert await writer.force() == 0
            on_time.set()
            await asyncio.sleep(PATIENCE)
            assert late.look(writer.ledger).deferred
            late.crash()
            await writer.append(b"b")
            await asyncio.sleep(PATIENCE)
            assert await writer.force() == 1
            await asyncio.sleep(PATIENCE)
            assert sorted(late.look(writer.ledger).frames) == [1]
            await writer.close()
            assert is_full(cluster, await cluster.catalog.metadata(writer.ledger))

    virtually(main)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_fails_a_closed_ledger_is_full(seed: int) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        async with MemoryCluster(7, options=OPTIONS, seed=seed) as cluster:
            shape = rng.choice([Replication(3, 3, 2), Replication(4, 3, 2), Replication(4, 2, 1)])
            writer = await cluster.catalog.create(shape, full_quorum=True)
            for number in range(20):
                bookie = cluster.bookies[f"b{rng.randrange(7)}"]
                if rng.random() < 0.2:
                    bookie.before = down(rng.choice(["add", "list_entries", "read"]))
                elif rng.random() < 0.3:
                    bookie.before = down("nothing")
                await writer.append(b"%d" % number)
            for name in rng.sample(sorted(cluster.bookies), 5):
                cluster.bookies[name].before = down("nothing")
            with suppress(QuireError):
                await writer.close()
            writer.abandon()
            metadata = await cluster.catalog.metadata(writer.ledger)
            if not metadata.is_closed:
                for bookie in cluster.bookies.values():
                    bookie.before = down("nothing")
                metadata = (await cluster.catalog.open(writer.ledger))._metadata
            assert metadata.last_entry == 19
            assert is_full(cluster, metadata)

    virtually(main, seed, Policy.WALK)
