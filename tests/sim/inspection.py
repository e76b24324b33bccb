"""The end of a simulated run: the final state of ledgers, from the bookies themselves."""

from __future__ import annotations

import asyncio

from quire.bookie import LedgerTail
from quire.entry import EntryId, Sealer
from quire.errors import CorruptEntryError, LedgerDisownedError, NotFoundError, QuireError
from quire.ledger.inventory import named_by
from quire.ledger.metadata import LedgerMetadata
from quire.run import split_run
from quire.storage.node import BookieNode
from tests.sim.checkers import FinalLedger
from tests.sim.history import Violation, require
from tests.sim.machines import BookieMachine
from tests.sim.world import SimWorld


async def inspect(
    world: SimWorld, metadata: LedgerMetadata, payloads: list[bytes], password: bytes = b""
) -> FinalLedger:
    """Gather the final state of a closed ledger from the bookies themselves."""
    final = FinalLedger(metadata, payloads, lost=world.budget.lost)
    sealer = Sealer(metadata.ledger, metadata.digest, password)
    for machine in world.bookies:
        if await _vouches(world, machine, metadata):
            await _inspect_bookie(world, machine, final, sealer)
    return final


async def _vouches(world: SimWorld, machine: BookieMachine, metadata: LedgerMetadata) -> bool:
    """Whether a bookie vouches for a ledger.

    Limbo has a cause: the bookie was hurt, or asked to copy the ledger. One that was asked at the
    end does not vouch yet; one that has just taken the place ends the limbo as soon as it hears so.
    """
    node, ledger = machine.node, metadata.ledger
    assert node is not None
    is_named = machine.name in named_by(metadata)
    is_asked = (machine.name, ledger) in world.copying
    if not world.is_hurt(machine.name):
        text = f"{machine.name} doubts ledger {ledger}, which it was not asked to copy"
        require(is_asked or not node.doubts(ledger), "limbo has a cause", text)
        if is_named:
            async with world.all_ends("limbo of taken places ends"):
                while node.doubts(ledger):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
    return is_named or not (is_asked and node.doubts(ledger))


async def _inspect_bookie(
    world: SimWorld, machine: BookieMachine, final: FinalLedger, sealer: Sealer
) -> None:
    held = await _read_all(world, machine, final, sealer)
    for entry, payload in held.items():
        if machine.name in final.metadata.write_set(entry):
            final.copies.setdefault(entry, {})[machine.name] = payload
    assert machine.node is not None
    if final.ledger in machine.doubted:
        lacking = sorted(final.owed(machine.name).difference(held))
        final.lacking[machine.name] = [
            entry for entry in lacking if await _lacks(machine.node, final, entry)
        ]
    if machine in world.budget.damaged:
        return
    try:
        tail = await machine.node.read_tail(final.ledger)
    except LedgerDisownedError:
        tail = LedgerTail(fenced=True)
    world.bookie_watch.check_fence(machine.name, final.ledger, tail)
    if held or tail.frame is not None:
        final.hints[machine.name] = tail.hint


async def _read_all(
    world: SimWorld, machine: BookieMachine, final: FinalLedger, sealer: Sealer
) -> dict[EntryId, bytes]:
    node, first, held = machine.node, 0, dict[EntryId, bytes]()
    assert node is not None
    while first <= final.last_entry:
        try:
            run = await node.read(final.ledger, first, final.last_entry)
        except (NotFoundError, LedgerDisownedError):
            break
        except QuireError:
            if machine not in world.budget.damaged:
                raise
            first += 1
            continue
        for entry, frame in split_run(run):
            try:
                held[entry] = sealer.unseal(entry, frame).payload
            except CorruptEntryError as error:
                text = f"{machine.name} holds a corrupt copy: {error}"
                raise Violation("copies are sound", text) from error
            first = entry + 1
    return held


async def _lacks(node: BookieNode, final: FinalLedger, entry: EntryId) -> bool:
    """Whether a bookie has an entry neither rotted nor, by now, good again."""
    try:
        await node.read(final.ledger, entry, entry)
    except CorruptEntryError:
        return False
    except QuireError:
        return True
    return False
