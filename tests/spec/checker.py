"""A breadth-first model checker: every state that a model can reach, each once.

A model has a first state, the states that follow a state, a canonical form (states that differ only
by the names of interchangeable parts are one), and the promise that a state breaks, if any. States
are hashable values. The count of generated and of distinct states is a fingerprint of the model:
the TLA⁺ module of the same name gives the same numbers (`make tlc`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple, Protocol, TypeVar

STATES_MAX: Final = 3_000_000
"""Distinct states after which a check gives up; about 700 bytes each."""

S = TypeVar("S", bound=Hashable)


class Model(Protocol[S]):
    """What the checker needs of a specification."""

    @property
    def first(self) -> S:
        """The state in which everything begins."""
        ...

    def following(self, state: S) -> Iterable[S]:
        """Yield every state that one action leads to."""
        ...

    def canonical(self, state: S) -> S:
        """Return the representative of all states that differ by interchangeable names only."""
        ...

    def broken(self, state: S) -> str | None:
        """Return the name of a promise that a state breaks, or None."""
        ...


class Outcome(NamedTuple):
    """What a check found.

    `broken` is the promise that the shortest counterexample breaks, None when all hold; `depth` its
    length in states, or that of the longest shortest path.
    """

    broken: str | None
    depth: int
    generated: int
    distinct: int


class TooManyStatesError(Exception):
    """The bounds are too large for an exhaustive check."""


def check(model: Model[S], *, depth_max: int | None = None) -> Outcome:
    """Visit every reachable state, or stop at the first that breaks a promise.

    Args:
        depth_max: the length of the longest path to look at, in states; all when None.

    Raises:
        TooManyStatesError: after `STATES_MAX` distinct states.
    """
    seen = {model.canonical(model.first)}
    layer, depth, generated = [model.first], 1, 1
    while layer and depth != depth_max:
        after = []
        for state in layer:
            for found in model.following(state):
                generated += 1
                form = model.canonical(found)
                if form in seen:
                    continue
                seen.add(form)
                if broken := model.broken(form):
                    return Outcome(broken, depth + 1, generated, len(seen))
                after.append(form)
        if len(seen) > STATES_MAX:
            raise TooManyStatesError(f"{len(seen)} distinct states at depth {depth}")
        layer, depth = after, depth + 1
    return Outcome(None, depth if layer else depth - 1, generated, len(seen))
