"""Safeguards of an auditor's sweep, and of its moves for the sake of spread, and what replaces
them.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from quire.entry import BookieId
from quire.healing import spread
from quire.healing.holes import Holes
from quire.healing.spread import Settling
from quire.ledger.domains import Candidate, Placement
from quire.ledger.quorum import Replication
from quire.ledger.spreading import Gain
from tests.sim.ablations.patch import Patch


def move_without_a_gain() -> list[Patch]:
    """Any free bookie is better than the one there."""

    def wider(
        rng: random.Random,
        replication: Replication,
        placement: Placement,
        ensemble: Sequence[Candidate],
        candidates: Iterable[Candidate],
    ) -> Gain | None:
        names = {each.bookie for each in ensemble}
        spare = sorted(each for each in candidates if each.bookie not in names)
        return Gain(rng.randrange(len(ensemble)), rng.choice(spare)) if spare else None

    return [(spread, "wider", wider)]


def never_wait() -> list[Patch]:
    def look(self: Settling, *_: Any) -> bool:
        return True

    return [(Settling, "look", look)]


def sweep_nothing() -> list[Patch]:
    async def sweep(self: Holes, seconds: float, up: Collection[BookieId]) -> None:
        return None

    return [(Holes, "sweep", sweep)]
