"""The index of ledgers, beside a plain mapping; and urgency, beside counting entry by entry."""

from __future__ import annotations

import itertools
import random
import tracemalloc

import pytest

import quire.healing.index as index_module
from quire.entry import DigestKind
from quire.healing.index import Index
from quire.healing.urgency import Job, Reason, work_of
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication

REPLICATIONS = (Replication(1, 1, 1), Replication(3, 3, 2), Replication(4, 2, 2))


def record(
    ledger: int,
    *ensembles: str,
    end: int | None = 99,
    replication: Replication | None = None,
    size_of_fragment: int = 10,
) -> LedgerMetadata:
    """A ledger with a fragment every ten entries, on bookies of one letter; closed with an end."""
    fragments = tuple(
        Fragment(size_of_fragment * at, tuple(each)) for at, each in enumerate(ensembles)
    )
    size = len(ensembles[0])
    return LedgerMetadata(
        ledger,
        replication or Replication(size, size, size),
        *(DigestKind.CRC32C, "", fragments),
        LedgerState.OPEN if end is None else LedgerState.CLOSED,
        end,
        None if end is None else 0,
    )


def drawn(rng: random.Random, ledger: int) -> LedgerMetadata:
    replication = rng.choice(REPLICATIONS)
    ensembles = [
        "".join(rng.sample("abcdefg", replication.ensemble)) for _ in range(rng.randint(1, 4))
    ]
    many = rng.choice([10, (1 << 40) + 7])
    end = rng.choice([None, many * len(ensembles) - 1])
    return record(ledger, *ensembles, end=end, replication=replication, size_of_fragment=many)


def named(metadata: LedgerMetadata) -> set[str]:
    return {each for fragment in metadata.fragments for each in fragment.bookies}


def check(index: Index, model: dict[int, LedgerMetadata]) -> None:
    assert len(index) == len(model)
    assert index.between(0, 10**9) == sorted(model)
    assert [each for each in range(60) if each in index] == [k for k in sorted(model) if k < 60]
    assert index.open_ledgers() == sorted(k for k, m in model.items() if not m.is_closed)
    for ledger, metadata in model.items():
        row = index.row(ledger)
        assert row is not None
        assert ledger in index
        assert row.shape.is_closed == metadata.is_closed == index.is_closed(ledger)
        assert row.ensembles == tuple(each.bookies for each in metadata.fragments)
        assert row.bookies == named(metadata)
        assert row.firsts == tuple(each.first for each in metadata.fragments)
        assert row.last == (-1 if metadata.last_entry is None else metadata.last_entry)
    for bookie in "abcdefgx":
        holders = sorted(k for k, m in model.items() if bookie in named(m))
        assert list(index.ledgers_of(bookie)) == holders
        assert index.names_closed(bookie) == any(model[each].is_closed for each in holders)


@pytest.mark.parametrize("seed", range(20))
def test_the_index_is_a_mapping_in_both_directions(seed: int) -> None:
    rng = random.Random(seed)
    index, model = Index(), dict[int, LedgerMetadata]()
    for step in range(600):
        ledger = rng.choice([rng.randrange(60), rng.randrange(60), 1000 + step])
        if rng.random() < 0.4:
            gone = rng.choice(sorted(model) or [ledger])
            index.drop(gone)
            model.pop(gone, None)
        else:
            model[ledger] = drawn(rng, ledger)
            index.put(model[ledger])
        if step % 40 == 0:
            check(index, model)
    check(index, model)
    assert index.after(20, 7) == [each for each in sorted(model) if each > 20][:7]
    assert index.after(10**9, 7) == []
    low, high = 20, 1100
    assert index.between(low, high) == [each for each in sorted(model) if low <= each <= high]


def test_a_ledger_that_is_not_known_is_absent_and_is_dropped_in_vain() -> None:
    index = Index()
    index.put(record(7, "abc"))
    index.drop(8)
    assert index.row(8) is None
    assert 8 not in index
    assert not index.is_closed(8)
    assert len(index) == 1
    index.drop(7)
    index.put(record(7, "abd"))
    assert list(index.ledgers_of("d")) == [7]
    assert list(index.ledgers_of("c")) == []


def test_ids_that_do_not_ascend() -> None:
    index = Index()
    for ledger in (5, 3, 9):
        index.put(record(ledger, "abc"))
    assert list(index.ledgers_of("a")) == [3, 5, 9]


@pytest.mark.slow
def test_rows_in_vain_do_not_pile_up() -> None:
    """A ledger that changes for ever, and ledgers that come and go, take no more and more space."""
    index = Index()

    def churn(first: int) -> None:
        for step in range(first, first + 4000):
            index.put(record(0, "abc", "abd", *(["xbc"] * (step % 3))))
            index.put(record(step, "abc"))
            index.drop(step)

    churn(1)
    tracemalloc.start()
    try:
        churn(5000)
        of_index = tracemalloc.Filter(True, index_module.__file__)
        traces = tracemalloc.take_snapshot().filter_traces([of_index])
        grown = sum(each.size for each in traces.statistics("filename"))
    finally:
        tracemalloc.stop()
    assert grown < 20_000  # without compaction some 300,000 bytes


def left_by_entry(metadata: LedgerMetadata, lost: set[str]) -> int:
    """Copies left of the entry with the fewest, counted entry by entry.

    Write sets of a fragment repeat themselves, so its first entries have all of them.
    """
    last, ensemble = metadata.last_entry, metadata.replication.ensemble
    assert last is not None
    firsts = [range(each.first, each.first + ensemble) for each in metadata.fragments]
    return min(
        (
            len(set(metadata.write_set(entry)) - lost)
            for entry in itertools.chain(*firsts)
            if entry <= last
        ),
        default=metadata.replication.write_quorum,
    )


@pytest.mark.parametrize("seed", range(20))
def test_urgency_is_the_fewest_copies_left(seed: int) -> None:
    rng = random.Random(seed)
    index, model = Index(), dict[int, LedgerMetadata]()
    for ledger in range(200):
        model[ledger] = drawn(rng, ledger)
        index.put(model[ledger])
    lost, leaving = set(rng.sample("abcdefg", rng.randint(0, 3))), {"g"}
    work = work_of(index, lost, leaving)
    closed = {k: m for k, m in model.items() if m.is_closed}
    hurt = {k for k, m in closed.items() if named(m) & lost}
    assert {each.ledger for each in work.jobs} | set(work.stranded) == hurt | {
        k for k, m in closed.items() if named(m) & leaving
    }
    for each in work.jobs:
        assert each.left == left_by_entry(model[each.ledger], lost) > 0
        assert (each.reason is Reason.LOST) == (each.ledger in hurt)
    assert all(left_by_entry(model[each], lost) == 0 for each in work.stranded)
    assert work.jobs == sorted(work.jobs)
    assert work.waiting == [
        k for k, m in sorted(model.items()) if not m.is_closed and named(m) & lost
    ]


def test_order_of_jobs() -> None:
    index = Index()
    for metadata in (
        record(1, "abc"),
        record(2, "xbc"),
        record(3, "xyc"),
        record(4, "xyz"),
        record(5, "xyz", end=-1),
        record(6, "xbc", end=None),
        record(7, "gbc"),
    ):
        index.put(metadata)
    work = work_of(index, {"x", "y", "z"}, {"g"})
    assert work.jobs == [
        Job(1, Reason.LOST, 3),
        Job(2, Reason.LOST, 2),
        Job(3, Reason.LOST, 5),  # no entries: nothing to copy, and a place to give away
        Job(3, Reason.DRAIN, 7),
    ]
    assert work.stranded == [4]
    assert work.waiting == [6]
