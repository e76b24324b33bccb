"""Somebody with the wrong password who writes to a ledger all the same.

The door of a client is of no use against him: he seals an entry with his own key and sends it to a
bookie that has acknowledged something of the ledger, so that its key is known there. He must be
refused, which B5 (watch.py) sees to.
"""

from __future__ import annotations

import random
from typing import Final

from quire.entry import DigestKind, LedgerId, Sealer
from quire.errors import QuireError, UnauthorizedError
from quire.run import pack_run
from tests.sim.clients import ClientMachine
from tests.sim.history import require
from tests.sim.world import SimWorld

FAR: Final = 1000
"""Entries from here on belong to nobody else."""


async def intrude(
    world: SimWorld, client: ClientMachine, ledger: LedgerId, rng: random.Random
) -> None:
    """Try one add with a wrong key, if some bookie knows the ledger."""
    assert client.roster is not None
    names = [
        machine.name
        for machine in world.bookies
        if not machine.is_damaged and world.bookie_watch.acked(machine.name, ledger)
    ]
    if not names:
        return
    sealer = Sealer(ledger, DigestKind.HMAC_SHA256, b"a guess")
    run = pack_run([sealer.seal(FAR, -1, 1, b"!")])
    world.note_fault("intruder")
    try:
        bookie = client.roster.bookie(rng.choice(names))
        await bookie.add(ledger, sealer.access_key, run, recovery=True)
    except UnauthorizedError:
        world.note_fault("intruder refused")
    except QuireError as error:
        world.say(client.name, f"cannot intrude: {error!r}")
    else:
        require(False, "B5 the first key is the key", "an add with a wrong key was accepted")
