"""An administrator whose log has lost its manifest makes it anew from the ledgers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from quire.log.directory import LogDirectory
from quire.log.records.position import BEGINNING
from quire.metastore.layout import log_path
from tests.sim.clients import ClientMachine
from tests.sim.history import LogReading, Seen, require
from tests.sim.log_checkers import passes_go_up_by_one
from tests.sim.world import SimWorld


async def rebuild(
    world: SimWorld,
    log: str,
    client: ClientMachine,
    directory: LogDirectory,
    final: list[Seen],
    scan: Callable[[ClientMachine], Coroutine[Any, Any, list[Seen]]],
) -> None:
    """Lose a manifest and rebuild it: with all that was there, and perhaps some of what was
    trimmed.
    """
    for each in world.clients:
        if each.name == "consumer" and world.log.trimmed_to is not None:
            each.end_life()  # its place may be behind a segment of which nobody knows any more
    # What the others know of the log goes with its record.
    world.tree.listeners[:] = [world.conformance.changed]
    world.tree.delete(log_path(log), None)
    await client.insist(lambda: directory.rebuild(log))
    found = await scan(client)
    kept = [seen for seen in found if seen.position >= final[0].position]
    text = f"{len(final)} records were in the log, {len(kept)} of them are in the one rebuilt"
    require(kept == final, "a rebuilt log is the log that was lost", text)
    passes_go_up_by_one([LogReading(client.name, BEGINNING, found)])
    world.note_fault("manifest rebuilt")
