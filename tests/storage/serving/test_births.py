"""A bookie begins no ledger whose id was not given out (B13)."""

from __future__ import annotations

import asyncio
import random

import pytest

from quire.bookie import LedgerTail
from quire.entry import LedgerId
from quire.errors import (
    BookieBusyError,
    BookieUnavailableError,
    InvalidRequestError,
    NoSuchLedgerError,
    QuireError,
    ReadOnlyBookieError,
    StoreUnavailableError,
    StoreWentBackError,
    WrongBookieError,
)
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER, LEDGER_IDS
from quire.metastore.memory import MemoryStore
from quire.metastore.record import encode_record
from quire.storage.identity.identity import cluster_id
from quire.storage.maintenance.deletions import MetadataBirths
from quire.storage.serving import births
from quire.storage.serving.births import BornBookie, Bound
from quire.testing.bookie import MemoryBookie
from tests.storage.scene import BOOKIE, KEY, OTHER_KEY, Scene, drive, run_of
from tests.support.virtual import virtually


class Counter:
    """The store's counter: each read is answered by the test, or at once from `following`."""

    def __init__(self, following: LedgerId | None = None) -> None:
        self.following = following
        self.reads: list[asyncio.Future[LedgerId]] = []

    async def born_below(self) -> LedgerId:
        reading: asyncio.Future[LedgerId] = asyncio.get_running_loop().create_future()
        self.reads.append(reading)
        if self.following is not None:
            reading.set_result(self.following)
        return await reading


def guarded(counter: Counter, bookie: MemoryBookie | None = None) -> BornBookie:
    inner = bookie or MemoryBookie(BOOKIE)
    return BornBookie(inner, BOOKIE, Bound(counter), lambda ledger: ledger in inner.ledgers)


async def turns(count: int = 20) -> None:
    """Let everything that is ready run."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_no_request_begins_a_ledger_whose_id_was_not_given_out() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        bookie = BornBookie(node, BOOKIE, Bound(Counter(7)), node.knows)
        with pytest.raises(InvalidRequestError, match="has not given out its id"):
            await bookie.add(7, KEY, run_of(7, 0))
        with pytest.raises(InvalidRequestError, match="ledger 7"):
            await bookie.add(7, KEY, run_of(7, 0), recovery=True)
        with pytest.raises(InvalidRequestError, match="ledger 7"):
            await bookie.read_tail(7, fence_key=OTHER_KEY)
        with pytest.raises(InvalidRequestError, match="ledger 7"):
            await bookie.read(7, 0, 0, fence_key=OTHER_KEY)
        with pytest.raises(InvalidRequestError, match="ledger 7"):
            await bookie.write_lac(7, KEY, b"a packet")
        assert (await bookie.info()).ledgers == 0
        await scene.close()
        again = await scene.start()
        assert not again.knows(7), "something durable was made"
        await again.add(7, KEY, run_of(7, 0))  # its writer has the first key
        await scene.close()

    drive(main())


def test_requests_that_make_no_state_ask_nothing() -> None:
    async def main() -> None:
        counter = Counter()
        bookie = guarded(counter)
        assert await bookie.read_tail(7) == LedgerTail()
        assert await bookie.list_entries(7) == []
        assert await bookie.sync(7, KEY, 0, 1) == []
        with pytest.raises(NoSuchLedgerError):
            await bookie.read(7, 0, 0)
        assert counter.reads == []

    drive(main())


def test_one_read_serves_all_ids_below_it_and_known_ledgers_need_none() -> None:
    async def main() -> None:
        counter, inner = Counter(70), MemoryBookie(BOOKIE)
        await inner.add(99, KEY, run_of(99, 0))  # begun before this start
        bookie = guarded(counter, inner)
        await bookie.add(99, KEY, run_of(99, 1))
        assert counter.reads == []
        for ledger in range(70):
            await bookie.add(ledger, KEY, run_of(ledger, 0))
        assert len(counter.reads) == 1

    drive(main())


def test_concurrent_requests_share_a_read_that_began_after_they_came() -> None:
    async def main() -> None:
        counter = Counter()
        bookie = guarded(counter)
        early = asyncio.ensure_future(bookie.add(3, KEY, run_of(3, 0)))
        await turns()
        # Both ids were given out after the read of the first began: its answer lacks them.
        late = [asyncio.ensure_future(bookie.add(n, KEY, run_of(n, 0))) for n in (4, 5)]
        await turns()
        assert len(counter.reads) == 1, "one read at a time"
        counter.reads[0].set_result(4)
        await early
        await turns()
        assert len(counter.reads) == 2
        counter.reads[1].set_result(6)
        await asyncio.gather(*late)
        assert len(counter.reads) == 2

    drive(main())


def test_adds_of_a_ledger_keep_their_order_and_hold_up_no_other_ledger() -> None:
    async def main() -> None:
        counter, inner = Counter(), MemoryBookie(BOOKIE)
        stored: list[LedgerId] = []

        async def before(method: str, ledger: LedgerId) -> None:
            stored.append(ledger)

        inner.before = before
        await inner.add(1, KEY, run_of(1, 0))
        bookie = guarded(counter, inner)
        waiting = [asyncio.ensure_future(bookie.add(7, KEY, run_of(7, n))) for n in range(3)]
        await turns()
        await bookie.add(1, KEY, run_of(1, 1))
        assert stored == [1, 1], "another ledger's add does not wait"
        counter.reads[0].set_result(8)
        last = asyncio.ensure_future(bookie.add(7, KEY, run_of(7, 3)))  # it queues as well
        await asyncio.gather(*waiting, last)
        assert await inner.list_entries(7) == [(0, 3)]

    drive(main())


def test_a_run_is_not_overtaken_by_a_later_run_of_its_ledger() -> None:
    async def main() -> None:
        counter, inner = Counter(), MemoryBookie(BOOKIE)
        taken: list[bytes] = []
        whole = inner.add

        async def add(ledger: LedgerId, key: bytes, run: bytes, **flags: bool) -> None:
            taken.append(run)
            await whole(ledger, key, run, **flags)

        inner.add = add  # type: ignore[method-assign]
        bookie = guarded(counter, inner)
        runs = [run_of(7, n) for n in range(4)]
        adding = [asyncio.ensure_future(bookie.add(7, KEY, run)) for run in runs[:2]]
        await turns()
        counter.reads[0].set_result(8)
        while not adding[0].done():
            if len(adding) < len(runs):
                adding.append(asyncio.ensure_future(bookie.add(7, KEY, runs[len(adding)])))
            await asyncio.sleep(0)
        adding += [asyncio.ensure_future(bookie.add(7, KEY, run)) for run in runs[len(adding) :]]
        await asyncio.gather(*adding)
        assert taken == runs

    drive(main())


def test_a_store_that_fails_for_a_moment_is_asked_again() -> None:
    async def main() -> None:
        counter = Counter()
        bookie = guarded(counter)
        adding = asyncio.ensure_future(bookie.add(7, KEY, run_of(7, 0)))
        await turns()
        counter.reads[0].set_exception(StoreUnavailableError("zk://a", "no leader"))
        counter.following = 8
        await adding
        assert len(counter.reads) == 2

    virtually(main)


def test_a_store_that_is_out_of_reach_makes_writers_go_elsewhere() -> None:
    async def main() -> None:
        bookie, loop = guarded(Counter()), asyncio.get_running_loop()
        begun = loop.time()
        with pytest.raises(ReadOnlyBookieError, match="no answer in 1 s"):
            await bookie.add(7, KEY, run_of(7, 0))
        assert loop.time() - begun == pytest.approx(births.ASK_SECONDS)
        with pytest.raises(BookieUnavailableError, match="does not say"):
            await bookie.add(7, KEY, run_of(7, 0), recovery=True)
        with pytest.raises(BookieUnavailableError, match="does not say"):
            await bookie.read_tail(7, fence_key=KEY)

    virtually(main)


def test_a_store_whose_word_does_not_count_begins_no_ledger() -> None:
    async def main() -> None:
        counter = Counter()
        bookie = guarded(counter)
        adding = asyncio.ensure_future(bookie.add(7, KEY, run_of(7, 0)))
        await turns()
        counter.reads[0].set_exception(StoreWentBackError("metadata store", "it was put back"))
        with pytest.raises(ReadOnlyBookieError, match="it was put back"):
            await adding

    drive(main())


def test_adds_that_wait_for_the_store_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        counter = Counter()
        bookie = guarded(counter)
        run = run_of(7, 0)
        size = len(run) + births.RUN_BYTES_OVERHEAD
        monkeypatch.setattr(births, "WAITING_BYTES_MAX", 2 * size)
        waiting = [asyncio.ensure_future(bookie.add(7, KEY, run)) for _ in range(2)]
        with pytest.raises(BookieBusyError, match="bytes wait for the metadata store"):
            await bookie.add(8, KEY, run_of(8, 0))
        await turns()
        counter.reads[0].set_result(9)
        await asyncio.gather(*waiting)
        await bookie.add(8, KEY, run_of(8, 0))  # the space was given back

    drive(main())


def test_an_add_larger_than_the_bound_waits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        counter = Counter()
        bookie = guarded(counter)
        monkeypatch.setattr(births, "WAITING_BYTES_MAX", 1)
        adding = asyncio.ensure_future(bookie.add(7, KEY, run_of(7, 0)))
        await turns()
        with pytest.raises(BookieBusyError, match="bytes wait for the metadata store"):
            await bookie.add(8, KEY, run_of(8, 0))
        counter.reads[0].set_result(9)
        await adding

    drive(main())


def test_an_add_whose_caller_left_is_not_sent_and_closing_fails_the_others() -> None:
    async def main() -> None:
        counter, inner = Counter(), MemoryBookie(BOOKIE)
        bookie = guarded(counter, inner)
        left, kept = (asyncio.ensure_future(bookie.add(7, KEY, run_of(7, n))) for n in (0, 1))
        await turns()
        left.cancel()
        await bookie.close()
        with pytest.raises(BookieUnavailableError, match="it is closed"):
            await kept
        assert 7 not in inner.ledgers

    drive(main())


def test_what_the_bookie_refuses_reaches_the_writer() -> None:
    async def main() -> None:
        counter, inner = Counter(), MemoryBookie(BOOKIE)
        bookie = guarded(counter, inner)
        adding = asyncio.ensure_future(bookie.add(7, KEY, run_of(7, 0)))
        inner.writable = False
        await turns()
        counter.reads[0].set_result(8)
        with pytest.raises(ReadOnlyBookieError, match="set read-only"):
            await adding

    drive(main())


async def _store(following: int | None) -> tuple[MemoryStore, str]:
    store = MemoryStore()
    cluster = await cluster_id(store, random.Random(1))
    if following is not None:
        await store.create(LEDGER_IDS, encode_record("ledger-ids", 1, {"next": following}))
    return store, cluster


@pytest.mark.parametrize(("following", "below"), [(None, 0), (5, 5)])
def test_the_counter_says_what_was_given_out(following: int | None, below: int) -> None:
    async def main() -> None:
        store, cluster = await _store(following)
        assert await MetadataBirths(store, cluster).born_below() == below

    drive(main())


def test_the_counter_of_another_store_says_nothing() -> None:
    async def main() -> None:
        store, cluster = await _store(5)
        found = await store.get(CLUSTER)
        put_back = Cluster(cluster, 1, adopted=False).encode()
        expected: list[tuple[bytes, type[QuireError]]] = [
            (Cluster("d" * 32).encode(), WrongBookieError),
            (put_back, StoreWentBackError),
        ]
        version = found.version
        for value, error in expected:
            version = await store.put(CLUSTER, value, version)
            with pytest.raises(error):
                await MetadataBirths(store, cluster).born_below()

    drive(main())


def test_a_counter_that_is_not_above_what_the_bookie_holds_proves_an_older_store() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        assert node.highest() == -1
        await node.add(7, KEY, run_of(7, 0))
        await node.read_tail(9, fence_key=OTHER_KEY)  # a stranger's, without entries
        assert node.highest() == 7
        await BornBookie(node, BOOKIE, Bound(Counter(8)), node.knows).check_store(node.highest())
        old = BornBookie(node, BOOKIE, Bound(Counter(7)), node.knows)
        with pytest.raises(StoreWentBackError, match="next ledger id is 7, and ledger 7"):
            await old.check_store(node.highest())
        await scene.close()

    drive(main())


def test_a_dropped_ledger_counts_as_held() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        await node._storage.retire([7])
        assert node.highest() == 7
        await scene.close()
        assert (await scene.start()).highest() == 7
        await scene.close()

    drive(main())


def test_a_counter_that_falls_begins_no_ledger() -> None:
    async def main() -> None:
        counter = Counter(8)
        bookie = guarded(counter)
        await bookie.add(7, KEY, run_of(7, 0))
        counter.following = 5
        with pytest.raises(StoreWentBackError, match="next ledger id is 5"):
            await bookie.check_store(-1)
        with pytest.raises(ReadOnlyBookieError, match="went back in time"):
            await bookie.add(8, KEY, run_of(8, 0))
        counter.following = 9
        await bookie.add(8, KEY, run_of(8, 0))

    drive(main())
