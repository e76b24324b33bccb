"""An intruder that writes to a ledger of another client.

One has the wrong password. The door of a client is of no use against it: it seals an entry with its
own key and sends it to a bookie that has acknowledged something of the ledger, so that its key is
known there. The second knows the password, and sends an entry with other bytes than the writer's.
The third takes ids of the future: it begins ledgers under ids that were not given out. All must be
refused.
"""

from __future__ import annotations

import random
from typing import Final

from quire.entry import DigestKind, LedgerId, Sealer
from quire.errors import (
    CorruptEntryError,
    InvalidRequestError,
    QuireError,
    UnauthorizedError,
)
from quire.run import pack_run
from tests.sim.clients import ClientMachine
from tests.sim.history import require
from tests.sim.world import SimWorld

FAR: Final = 1000
"""Entries from here on belong to nobody else."""


async def replace(
    world: SimWorld, client: ClientMachine, sealer: Sealer, rng: random.Random
) -> None:
    """Send a bookie other bytes for an entry that it has acknowledged, with the right key."""
    assert client.roster is not None
    held = [
        (machine.name, entry)
        for machine in world.bookies
        if not machine.is_damaged and not machine.was_repaired
        for entry in sorted(world.bookie_watch.acked(machine.name, sealer.ledger))
    ]
    if not held:
        return
    name, entry = rng.choice(held)
    run = pack_run([sealer.seal(entry, entry - 1, 10_000, b"forged")])
    try:
        await client.roster.bookie(name).add(sealer.ledger, sealer.access_key, run)
    except CorruptEntryError:
        world.note_fault("replacement refused")
    except QuireError as error:
        world.say(client.name, f"cannot replace: {error!r}")
    else:
        text = f"{name} took other bytes for entry {entry} of ledger {sealer.ledger}"
        require(False, "B12 an entry is never replaced", text)


UNBORN: Final = 1 << 40
"""Ids from here on are not given out in any run."""


async def squat(client: ClientMachine, world: SimWorld, rng: random.Random) -> None:
    """Fence or begin a ledger whose id was not given out."""
    assert client.roster is not None
    ledger = UNBORN + rng.randrange(1000)
    sealer = Sealer(ledger, DigestKind.CRC32C, b"a stranger")
    name, is_fence = rng.choice([machine.name for machine in world.bookies]), rng.random() < 0.5
    try:
        bookie = client.roster.bookie(name)
        if is_fence:
            await bookie.read_tail(ledger, fence_key=sealer.access_key)
        else:
            run = pack_run([sealer.seal(0, -1, 1, b"!")])
            await bookie.add(ledger, sealer.access_key, run, recovery=rng.random() < 0.5)
    except InvalidRequestError:
        world.note_fault("squatter refused")
    except QuireError as error:
        world.say(client.name, f"cannot squat: {error!r}")
    else:
        text = f"ledger {ledger} was begun, and its id was not given out"
        require(False, "B13 no ledger before its id", text)


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
