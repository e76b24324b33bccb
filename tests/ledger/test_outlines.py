"""What bookies owe, and what outlines prove of it, against entries counted one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quire.entry import DigestKind
from quire.ledger.inventory import compare
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.outlines import Verdict, judge, owed
from quire.ledger.quorum import Replication
from quire.outline import NOTHING, Outline

REPLICATIONS = [Replication(1, 1, 1), Replication(3, 3, 2), Replication(5, 3, 2)]


@st.composite
def ledgers(draw: st.DrawFn) -> LedgerMetadata:
    replication = draw(st.sampled_from(REPLICATIONS))
    names = st.permutations("abcdefg").map(lambda it: tuple(it[: replication.ensemble]))
    firsts = [0, *sorted(draw(st.sets(st.integers(1, 30), max_size=3)))]
    last = max(firsts[-1] - 1, draw(st.integers(-1, 45)))
    fragments = tuple(Fragment(first, draw(names)) for first in firsts)
    return LedgerMetadata(
        *(7, replication, DigestKind.CRC32C, "", fragments, LedgerState.CLOSED, last, 0)
    )


def named(metadata: LedgerMetadata) -> list[str]:
    return sorted({each for fragment in metadata.fragments for each in fragment.bookies})


def must(metadata: LedgerMetadata, bookie: str) -> set[int]:
    assert metadata.last_entry is not None
    entries = range(metadata.last_entry + 1)
    return {entry for entry in entries if bookie in metadata.write_set(entry)}


def of(ids: set[int]) -> Outline:
    return Outline(min(ids), max(ids), len(ids)) if ids else NOTHING


def owes(metadata: LedgerMetadata, bookie: str) -> Outline:
    assert metadata.last_entry is not None
    firsts = [each.first for each in metadata.fragments]
    ensembles = [each.bookies for each in metadata.fragments]
    return owed(metadata.replication, firsts, ensembles, metadata.last_entry, bookie)


@given(ledgers())
def test_what_a_bookie_owes_is_what_the_write_sets_say(metadata: LedgerMetadata) -> None:
    for bookie in named(metadata):
        assert owes(metadata, bookie) == of(must(metadata, bookie))


@given(ledgers(), st.data())
def test_an_outline_is_never_whole_when_an_entry_is_missing(
    metadata: LedgerMetadata, data: st.DataObject
) -> None:
    bookie = data.draw(st.sampled_from(named(metadata)))
    wanted = must(metadata, bookie)
    holds = data.draw(st.sets(st.integers(0, 48))) | (wanted if data.draw(st.booleans()) else set())
    verdict = judge(owes(metadata, bookie), of(holds))
    if not wanted <= holds:
        assert verdict in (Verdict.LIKELY, Verdict.DIFFERS)
    if wanted <= holds and verdict is Verdict.DIFFERS:
        assert holds - wanted, "it holds what it must, and no more"
    if holds == wanted:
        assert verdict in (Verdict.WHOLE, Verdict.LIKELY)


@given(ledgers(), st.data())
def test_missing_entries_show_unless_others_are_in_their_places(
    metadata: LedgerMetadata, data: st.DataObject
) -> None:
    bookie = data.draw(st.sampled_from(named(metadata)))
    wanted = must(metadata, bookie)
    missing = data.draw(st.sets(st.sampled_from(sorted(wanted)), min_size=1)) if wanted else set()
    verdict = judge(owes(metadata, bookie), of(wanted - missing))
    assert verdict is Verdict.DIFFERS or not missing
    ranges = [(each, each) for each in sorted(wanted - missing)]
    found = compare(metadata, {bookie: ranges}).holdings
    assert (verdict is Verdict.DIFFERS) == any(each.missing for each in found)


def test_a_bookie_that_tells_nothing_proves_nothing() -> None:
    assert judge(Outline(0, 9, 10), None) is Verdict.UNTOLD
    assert judge(NOTHING, None) is Verdict.WHOLE, "it need not hold anything"
    assert judge(Outline(0, 9, 10), NOTHING) is Verdict.DIFFERS
