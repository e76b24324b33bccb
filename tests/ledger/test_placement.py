"""Ensembles hold each bookie once, come from the candidates, and repeat with the seed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import NotEnoughBookiesError
from quire.ledger.placement import choose_ensemble, replace

BOOKIES = [f"b{number}" for number in range(9)]


@given(st.integers(0, 9), st.integers(1, 9), st.randoms(use_true_random=False))
def test_choose(available: int, size: int, rng: random.Random) -> None:
    candidates = BOOKIES[:available]
    if available < size:
        with pytest.raises(NotEnoughBookiesError) as caught:
            choose_ensemble(rng, candidates, size)
        assert (caught.value.needed, caught.value.available) == (size, available)
        return
    chosen = choose_ensemble(rng, candidates, size)
    assert len(set(chosen)) == size
    assert set(chosen) <= set(candidates)


@given(
    st.sets(st.integers(0, 3), min_size=1),
    st.sets(st.sampled_from(BOOKIES)),
    st.randoms(use_true_random=False),
)
def test_replace(failed: set[int], candidates: set[str], rng: random.Random) -> None:
    ensemble = tuple(BOOKIES[:4])
    spares = candidates.difference(ensemble)
    if not spares:
        with pytest.raises(NotEnoughBookiesError):
            replace(rng, ensemble, failed, candidates)
        return
    result = replace(rng, ensemble, failed, candidates)
    changed = [position for position in range(4) if result[position] != ensemble[position]]
    assert changed == sorted(failed)[: len(spares)], "lowest first, as many as there are spares"
    assert {result[position] for position in changed} <= spares
    assert len(set(result)) == 4


def test_replacing_nothing_needs_no_spare() -> None:
    assert replace(random.Random(1), ("a", "b"), [], []) == ("a", "b")


def test_the_draw_depends_on_the_seed_and_not_on_the_order_of_candidates() -> None:
    first = choose_ensemble(random.Random(7), BOOKIES, 3)
    second = choose_ensemble(random.Random(7), reversed(BOOKIES), 3)
    assert first == second
    many = {choose_ensemble(random.Random(seed), BOOKIES, 3) for seed in range(50)}
    assert len(many) > 20, "load spreads"
