"""Which bookies form an ensemble, and which ones take over failed positions.

Uniformly random among the candidates: load spreads by itself, and writers that replace the same
bookie do not all run to the same spare. A bookie appears once per ensemble (L5). Candidates are
sorted before the draw, so the result depends on the generator and the set of candidates alone.

Pure: the caller brings the candidates and the generator, and decides which bookies to leave out.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence

from quire.entry import BookieId
from quire.errors import NotEnoughBookiesError


def choose_ensemble(
    rng: random.Random, candidates: Iterable[BookieId], size: int
) -> tuple[BookieId, ...]:
    """Return `size` different candidates in random order.

    Raises `NotEnoughBookiesError` when there are fewer.
    """
    pool = sorted(set(candidates))
    if len(pool) < size:
        raise NotEnoughBookiesError(size, len(pool))
    return tuple(rng.sample(pool, size))


def replace(
    rng: random.Random,
    ensemble: Sequence[BookieId],
    failed_positions: Collection[int],
    candidates: Iterable[BookieId],
) -> tuple[BookieId, ...]:
    """Return the ensemble with its failed positions given to candidates that are not yet in it.

    When there are fewer spares than failed positions, the lowest positions are replaced and the
    others keep their bookie: half a repair is better than none. The result tells which.

    Raises `NotEnoughBookiesError` without any spare.
    """
    failed = sorted(set(failed_positions))
    spares = sorted(set(candidates).difference(ensemble))
    if failed and not spares:
        raise NotEnoughBookiesError(len(failed), 0)
    chosen = rng.sample(spares, min(len(failed), len(spares)))
    result = list(ensemble)
    for position, bookie in zip(failed, chosen, strict=False):
        result[position] = bookie
    return tuple(result)
