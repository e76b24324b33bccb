"""An operator who sends bookies away, drains them, and takes it back: wishes at random moments.

A wish takes no bookie from its cluster: the budget of losses stays as it is, and recoveries, reads
and fences must go on as if the wish were not there.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from quire.entry import BookieId
from quire.metastore.layout import standing_path
from quire.metastore.standing import SERVING, Standing, Wish

if TYPE_CHECKING:
    from tests.sim.world import SimWorld

AWAY_SECONDS: Final = (0.2, 1.0, 3.0)
"""Mean seconds of an away."""

FORGOTTEN_SHARE: Final = 0.3
"""How many aways are not taken back: they end by themselves."""


def wish(world: SimWorld, rng: random.Random) -> Callable[[], None]:
    """Wish something of a bookie; return what takes it back."""
    bookie = rng.choice(world.bookies).name
    now = round(world.clock() * 1000)
    if rng.random() < 0.3:
        _put(world, bookie, Standing(Wish.DRAIN, since_ms=now))
    else:
        seconds = 0.001 + rng.expovariate(1 / rng.choice(AWAY_SECONDS))
        until = now + max(1, round(seconds * 1000))
        _put(world, bookie, Standing(Wish.AWAY, since_ms=now, until_ms=until))
        if rng.random() < FORGOTTEN_SHARE:
            return lambda: None
    return lambda: _put(world, bookie, SERVING)


def drain(world: SimWorld, bookie: BookieId) -> None:
    """Wish that a bookie leaves, until `take_drains_back`."""
    _put(world, bookie, Standing(Wish.DRAIN, since_ms=round(world.clock() * 1000)))


def send_away(world: SimWorld, bookie: BookieId, seconds: float) -> None:
    """Wish that a bookie is away for some seconds."""
    now = round(world.clock() * 1000)
    until = now + round(seconds * 1000)
    _put(world, bookie, Standing(Wish.AWAY, since_ms=now, until_ms=until))


def take_drains_back(world: SimWorld) -> None:
    """End every drain: a store that was put back may hold one that was taken back since."""
    for machine in world.bookies:
        path = standing_path(machine.name)
        if world.tree.version(path) is not None:
            standing = Standing.decode(machine.name, world.tree.get(path).value)
            if standing.wish is Wish.DRAIN:
                _put(world, machine.name, SERVING)


def _put(world: SimWorld, bookie: BookieId, standing: Standing) -> None:
    world.say("operator", f"wishes of {bookie}: {standing.wish}")
    path, tree = standing_path(bookie), world.tree
    version = tree.version(path)
    if version is None:
        tree.create(path, standing.encode())
    else:
        tree.put(path, standing.encode(), version)
