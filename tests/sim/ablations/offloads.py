"""Safeguards of offloaded segments: their files, and who may delete them."""

from __future__ import annotations

from typing import Any

from quire.log import cold_tier, offload
from tests.sim.ablations.patch import Patch


def name_a_file_unread() -> list[Patch]:
    async def copy(self: Any, segment: Any, password: Any, take: Any) -> None:
        if segment.cold is None:
            await whole(self, segment, password, take)

    def differs(self: Any, other: object) -> bool:
        return False

    whole = offload.Offload._copy
    blind = type("Blind", (int,), {"__ne__": differs})
    summing = type("Summing", (), {"value": blind(0), "add": lambda self, data: None})
    return [(offload.Offload, "_copy", copy), (offload, "Summing", summing)]


def sweep_attempts_under_way() -> list[Patch]:
    def is_orphan(manifest: Any, name: str) -> bool:
        return name not in {each.cold.name for each in manifest.segments if each.cold}

    return [(offload, "is_orphan", is_orphan)]


def move_what_was_moved() -> list[Patch]:
    return [(offload, "_is_movable", lambda segment: segment.end is not None)]


def leave_the_files() -> list[Patch]:
    return [(cold_tier, "delete_tier", lambda tier, log_id: None)]
