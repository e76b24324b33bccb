"""Safeguards of offloaded segments: their files, and who may delete them."""

from __future__ import annotations

from typing import Any

from pyarrow import fs

from quire.log.cold import reader
from quire.log.cold import tier as cold_tier
from quire.log.maintenance import offload
from quire.log.manifest import cold_files
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


def believe_any_name() -> list[Patch]:
    def names(tier: str, log_id: str) -> list[str]:
        system, path = cold_tier.locate(tier)
        with cold_tier.tier_errors(tier):
            found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return sorted(each.base_name for each in found)

    return [(cold_tier, "is_ours", lambda path, log_id: True), (cold_tier, "list_names", names)]


def record_a_place_unseen() -> list[Patch]:
    return [(cold_tier, "probe", lambda tier: None)]


def write_attempts_among_the_files() -> list[Patch]:
    return [(cold_files.ColdFile, "attempt_uri", cold_files.ColdFile.uri)]


def look_for_files_in_one_place() -> list[Patch]:
    whole = reader._FilePlace.__init__

    def init(self: Any, file: Any, ledger: int) -> None:
        whole(self, file, ledger)
        self._places = (self._places[0], self._places[0])

    return [(reader._FilePlace, "__init__", init)]
