"""Copies suffice at Qa bookies in m domains; the window counts as brute force does."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.entry import EntryId
from quire.labels import Domain, Labels
from quire.ledger.ack_rule import AckRule
from quire.ledger.domains import ANYWHERE, Candidate, Placement
from quire.ledger.metadata import Fragment
from quire.ledger.quorum import Replication
from quire.ledger.window import AppendWindow
from tests.support.examples import examples

A, B, C, NOWHERE = ("a",), ("b",), ("c",), ("",)
SHAPES = [Replication(*each) for each in ((3, 3, 2), (3, 3, 1), (3, 2, 1), (4, 3, 2), (5, 3, 2))]


@pytest.mark.parametrize(
    ("holders", "enough"),
    [({0, 1}, False), ({0, 2}, True), ({2}, False), ({0, 1, 2}, True), ({1, 3}, False)],
)
def test_qa_copies_in_one_domain_are_too_few(holders: set[int], enough: bool) -> None:
    rule = AckRule(Replication(4, 3, 2), (A, A, B, C), 2)
    assert rule.suffices((0, 1, 2), holders) is enough
    assert AckRule(Replication(4, 3, 2)).suffices((0, 1, 2), {0, 1})


def test_a_bookie_without_a_label_adds_no_domain() -> None:
    rule = AckRule(Replication(3, 3, 2), (A, NOWHERE, B), 2)
    assert not rule.suffices((0, 1, 2), {0, 1})
    assert rule.spread_through((0, 1, 2), [7, 9, 5]) == 5


def test_the_rule_of_a_fragment_is_that_of_its_labels() -> None:
    policy = Placement.parse("durable=zone:2")
    seats = [Candidate(each, Labels(zone=each)) for each in "aab"]
    fragment = Fragment.placed(4, seats, policy)
    rule = AckRule.of(Replication(), policy, fragment)
    assert rule.counts_domains
    assert not rule.suffices((0, 1, 2), {0, 1})
    assert not AckRule.of(Replication(), ANYWHERE, Fragment(0, ("a", "b", "c"))).counts_domains


class Model:
    """Sets of acks for each entry, and nothing clever."""

    def __init__(self, replication: Replication, domains: Sequence[Domain], needed: int) -> None:
        self.replication = replication
        self.domains = list(domains)
        self.needed = needed
        self.holders: list[set[int]] = []
        self.lac = -1

    def acknowledge(self, position: int, entry: EntryId) -> None:
        for each in range(self.lac + 1, entry + 1):
            if position in self.replication.write_set(each):
                self.holders[each].add(position)

    def advance(self) -> None:
        while self.lac + 1 < len(self.holders) and self._counts(self.holders[self.lac + 1]):
            self.lac += 1

    def replace(self, position: int, domain: Domain) -> None:
        self.domains[position] = domain
        for each in self.holders[self.lac + 1 :]:
            each.discard(position)

    def _counts(self, holders: set[int]) -> bool:
        domains = {self.domains[position] for position in holders} - {NOWHERE}
        return len(holders) >= self.replication.ack_quorum and len(domains) >= self.needed


@examples(200)
@given(
    st.sampled_from(SHAPES),
    st.integers(1, 3),
    st.integers(0, 2**32),
    st.lists(st.sampled_from([A, B, C, NOWHERE]), min_size=5, max_size=5),
)
def test_the_window_counts_as_sets_do(
    replication: Replication, needed: int, seed: int, domains: list[Domain]
) -> None:
    rng, size = random.Random(seed), replication.ensemble
    model = Model(replication, domains[:size], needed)
    window = AppendWindow(replication, rule=AckRule(replication, domains[:size], needed))
    for _ in range(120):
        action = rng.random()
        if action < 0.4:
            window.push()
            model.holders.append(set())
        elif action < 0.9 and window.pushed >= 0:
            position, entry = rng.randrange(size), rng.randint(0, window.pushed)
            window.acknowledge(position, entry)
            model.acknowledge(position, entry)
        else:
            position, domain = rng.randrange(size), rng.choice([A, B, C])
            first = window.freeze()
            model.replace(position, domain)
            window.replace([position], first, AckRule(replication, model.domains, needed))
            window.thaw()
        model.advance()
        window.check()
        assert window.lac == model.lac
