"""Safeguards of the deletion of logs, and of those who meet it."""

from __future__ import annotations

from typing import Any

from quire.errors import DeposedError
from quire.log import directory
from quire.log.leader import segments, takeover
from quire.log.maintenance import deletion
from quire.log.reading import manifest_reader
from tests.sim.ablations.patch import Patch


def delete_the_record_first() -> list[Patch]:
    whole = deletion._delete_records

    async def delete_log(record: Any, catalog: Any, cursors: Any, *_: Any) -> None:
        manifest, _version = await record.read()
        await whole(record, cursors, manifest.log_id, ())
        for segment in manifest.segments:
            await catalog.delete(segment.ledger)

    return [(directory, "delete_log", delete_log)]


def delete_without_an_end() -> list[Patch]:
    async def fence(*_: Any) -> None:
        return None

    return [(deletion, "_fence", fence)]


def lead_the_next_log_of_the_name() -> list[Patch]:
    def check_mine(self: Any, manifest: Any) -> Any:
        if manifest is None:
            raise DeposedError(self.name, self.epoch, "the log was deleted")
        if manifest.epoch != self.epoch:
            raise DeposedError(self.name, self.epoch, f"epoch {manifest.epoch} has begun")
        self._options.follow(manifest.settings)
        return manifest

    return [(segments.Chain, "check_mine", check_mine)]


def create_a_log_twice() -> list[Patch]:
    return [(takeover, "once", lambda edit, error: edit)]


def delete_whatever_is_there() -> list[Patch]:
    async def read_same(record: Any, log_id: str) -> int:
        _, version = await record.read()
        return int(version)

    return [(deletion, "_read_same", read_same)]


def read_on_in_the_next_log() -> list[Patch]:
    whole = manifest_reader.ManifestReader.read

    async def read(self: Any) -> Any:
        self.log_id = None
        return await whole(self)

    return [(manifest_reader.ManifestReader, "read", read)]
