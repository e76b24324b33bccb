"""Zones of a run's bookies, and ledgers whose acks count them."""

from __future__ import annotations

import random

from quire.errors import NotEnoughDomainsError
from quire.ledger.domains import Candidate, Placement, Spread
from quire.ledger.placement import choose_ensemble
from quire.ledger.quorum import Replication
from quire.ledger.stored_records import PLACEMENT_LEVEL
from tests.sim.world import SimWorld


def draw_placement(
    world: SimWorld, replication: Replication, rng: random.Random, *, may_relabel: bool
) -> Placement | None:
    """Draw durability over zones and the zones of the bookies, or neither.

    Where labels change, all disks last: a spare in the zone of a lost bookie is not certain. New
    ledgers after the faults are not certain either, so only one that exists may see labels change.
    """
    zones = rng.choice([2, 2, 3])
    wanted = rng.random() < world.mix.zones and world.level >= PLACEMENT_LEVEL
    needed = rng.choice([2, 2, min(3, zones)])
    if not wanted or replication.write_quorum < needed:
        return None
    world.zones = zones
    placement = Placement(durable=Spread("zone", needed))
    cluster = [Candidate(each.name, world.place(each)) for each in world.bookies]
    try:
        choose_ensemble(rng, cluster, replication, placement)
    except NotEnoughDomainsError:
        world.zones = 0
        return None
    world.relabels = may_relabel and rng.random() < world.mix.relabels
    if world.relabels:
        world.budget.set(1)
    return placement
