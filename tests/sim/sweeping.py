"""The end of sweeps in the workload `healing`: one auditor finds every hole by outlines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from quire.healing import holes, survey
from tests.sim.auditors import audit_alone, settled
from tests.sim.clients import ClientMachine
from tests.sim.history import require
from tests.sim.inspection import inspect

if TYPE_CHECKING:
    from tests.sim.healing_workload import HealingWorkload

SWEEP_TURN_SECONDS: Final = 1.0


async def sweep(work: HealingWorkload, client: ClientMachine) -> None:
    """Let an auditor find holes that are older than it, by outlines alone."""
    world = work.world
    bookies = {each.name for each in world.bookies}
    is_seen = False
    with (
        patch.object(survey, "DRIFT_PER_SECOND", 0.0),
        patch.object(holes, "TURN_SECONDS", SWEEP_TURN_SECONDS),
    ):
        while not is_seen:
            began = world.loop.time()
            await audit_alone(world, client, lambda audit: not audit.holes.ledgers)
            # A bookie whose registration ended meanwhile was asked for nothing.
            is_seen = bookies <= work.auditing.watch.there_since(began)
    await settled(world)
    for _, metadata in sorted(world.metadata_watch.current.items()):
        striped = metadata.replication.ensemble > metadata.replication.write_quorum
        if not striped and len(metadata.fragments) == 1:  # an outline is exact there
            final = await inspect(world, metadata, [])
            for text, there, wanted in final.places(work.damaged()):
                require(wanted <= there, "H10 a sweep finds every hole", text)
