"""Safeguards of a replicated service: when a command is applied, and what a reader waits for."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from quire.errors import ConflictError, NoSuchLedgerError, QuireError
from quire.log.maintenance import retention
from quire.log.manifest.record import ManifestRecord
from quire.log.records.position import LATEST, Appended, Position
from quire.metastore.changes import Create, Put
from quire.service import Applied, office, service, snapshots
from tests.sim import photographer
from tests.sim.ablations.patch import Patch


def apply_before_it_is_in_the_log() -> list[Patch]:
    """The place of a command that is never confirmed is given back, and its effect stays."""

    async def apply_confirmed(self: Any) -> None:
        replica = self._apply.func.__self__
        while (owed := await self._owed.get()) is not None:
            place = replica._next, replica._offset
            result = self._apply(owed.payload, Appended(*place))
            try:
                replica._next = (await owed.appended).position.after
            except QuireError as error:
                replica._next, replica._offset = place
                owed.fail(error)
            else:
                owed.succeed(result)

    return [(office.Office, "_apply_confirmed", apply_confirmed)]


def lead_without_reading_on() -> list[Patch]:
    whole = service.Service._read_on

    async def read_on(self: Any, *, follow: bool) -> None:
        if follow:
            await whole(self, follow=True)

    return [(service.Service, "_read_on", read_on)]


def read_what_is_there() -> list[Patch]:
    async def barrier(self: Any) -> None:
        self._leading()

    return [(service.Service, "barrier", barrier)]


def trim_before_the_snapshot() -> list[Patch]:
    async def write_snapshot(self: Any, log: Any, at: Any, offset: int, state: bytes) -> None:
        try:
            await log.trim(at)
            await self._snapshots.write(log.log_id, at, offset, state, log.options.replication)
        except QuireError:
            return

    return [(service.Service, "_write_snapshot", write_snapshot)]


def retain_without_the_snapshot() -> list[Patch]:
    async def nothing_is_needed(floor: Any) -> Position:
        return LATEST

    return [(retention, "_first_needed", nothing_is_needed)]


def close_for_who_waits_only() -> list[Patch]:
    whole = service.Service.close

    async def close(self: Any) -> None:
        if self._office is not None and self._failure is None:
            with suppress(QuireError):
                await self.hand_over()
        await whole(self)

    return [(service.Service, "close", close)]


def install_any_snapshot() -> list[Patch]:
    async def install(self: Any, snapshot: snapshots.Snapshot) -> int | None:
        record = ManifestRecord(self._store, self._name)
        while True:
            found, version = await self._find()
            if found == snapshot:
                return None
            manifest, at = await record.find()
            if manifest is None or manifest.retired or manifest.log_id != snapshot.log_id:
                return snapshot.ledger
            path, data = self._path, snapshot.encode()
            change = Create(path, data) if version is None else Put(path, data, version)
            with suppress(ConflictError):
                await self._store.commit([*record.unchanged(manifest, at), change])
                return found.ledger if found is not None else None

    return [(snapshots.Snapshots, "_install", install)]


def apply_any_record() -> list[Patch]:
    def apply_record(self: Any, record: Any) -> None:
        self._apply(record.payload, Applied(record.position, record.offset, record.epoch))

    return [(service.Service, "_apply_record", apply_record)]


def delete_the_snapshot_before() -> list[Patch]:
    """The ledger that is to be replaced goes before the record names the next one."""
    whole = snapshots.Snapshots._install

    async def install(self: Any, snapshot: snapshots.Snapshot) -> int | None:
        found, _ = await self._find()
        if found is not None and found.offset < snapshot.offset:
            with suppress(NoSuchLedgerError):
                await self._catalog.delete(found.ledger)
        return await whole(self, snapshot)

    return [(snapshots.Snapshots, "_install", install)]


def sweep_what_no_record_named_at_first() -> list[Patch]:
    """The sweep reads the record once, and decides about ledgers that it sees later by it."""

    async def sweep(store: Any, catalog: Any) -> list[int]:
        swept: list[int] = []
        named: dict[str, int | None] = {}
        async for metadata in catalog.each():
            service = metadata.custom_metadata.get(snapshots.SERVICE)
            if service is None:
                continue
            if service not in named:
                found = await snapshots.Snapshots(store, catalog, service, None).newest()  # type: ignore[arg-type]
                named[service] = found.ledger if found else None
            if metadata.ledger != named[service]:
                with suppress(NoSuchLedgerError):
                    await catalog.delete(metadata.ledger)
                    swept.append(metadata.ledger)
        return swept

    return [(photographer, "gc_snapshots", sweep)]
