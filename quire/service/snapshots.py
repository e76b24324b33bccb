"""Snapshots of a service: its state in a ledger, and a record that names the newest ledger.

    write the ledger and close it → replace the record → trim the log → delete the ledger before

The record only moves forward, so any replica may write a snapshot, also a deposed leader:
the state of a replica is always the state after some prefix of the log. A process that ends in
between leaves a ledger that no record names, labelled with service, log and offset
(`gc_snapshots`). The deletion of a log deletes record and ledger (log/maintenance/deletion.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from quire.entry import Entry, LedgerId
from quire.errors import (
    ConflictError,
    CorruptRecordError,
    NoSuchLedgerError,
    NoSuchNodeError,
    QuireError,
)
from quire.fields import NOTHING, Unknown
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.quorum import Replication
from quire.log.manifest.options import LogOptions
from quire.log.manifest.record import ManifestRecord
from quire.log.records.batch import decode_batch, encode_batch
from quire.log.records.encryption import Decryption, Encryption
from quire.log.records.position import BEGINNING, Position, stored_position
from quire.log.records.txids import NO_TXID
from quire.log.segment_store.ledgers import facts_of
from quire.metastore.changes import Change, Create, Delete, Put
from quire.metastore.layout import service_path
from quire.metastore.record import RecordFormat
from quire.metastore.store import MetadataStore

FORMAT: Final = RecordFormat("snapshot", frozenset({"log_id", "ledger", "position", "offset"}))
CHUNK_BYTES: Final = 256 * 1024
ATTEMPTS_MAX: Final = 16

SERVICE: Final = "service"
LOG_ID: Final = "log_id"
OFFSET: Final = "offset"
"""Labels of a ledger: the service and the log of its state, and the first record not in it."""

ENCRYPTED: Final = "encrypted"
"""Label of a ledger: its entries are encrypted batches of one record each."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The ledger of a state, and the position and offset of the first record not in it."""

    log_id: str
    ledger: LedgerId
    position: Position
    offset: int
    unknown: Unknown = NOTHING

    def encode(self) -> bytes:
        """Return the metadata record."""
        body = {
            "log_id": self.log_id,
            "ledger": self.ledger,
            "position": str(self.position),
            "offset": self.offset,
        }
        return FORMAT.encode(body, self.unknown)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Snapshot:
        """Return the content of a record. Raises `CorruptRecordError`, naming the path."""
        _, body, unknown = FORMAT.decode(path, data)
        match body:
            case {
                "log_id": str(log_id),
                "ledger": int(ledger),
                "position": str(position),
                "offset": int(offset),
            }:
                place = stored_position(path, position)
                return cls(log_id, ledger, place, offset, unknown)
        raise CorruptRecordError(path, f"not a snapshot: {sorted(body)}")


class Snapshots:
    """The snapshots of one service. Stateless."""

    def __init__(
        self, store: MetadataStore, catalog: LedgerCatalog, name: str, options: LogOptions
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._name = name
        self._path = service_path(name)
        self._options = options

    async def newest(self) -> Snapshot | None:
        """Return the newest snapshot, None before the first."""
        return (await self._find())[0]

    async def first_needed(self) -> Position:
        """Return the position of the first record that the newest snapshot does not cover."""
        snapshot = await self.newest()
        return BEGINNING if snapshot is None else snapshot.position

    async def read(self, snapshot: Snapshot) -> bytes:
        """Return the state. Raises `NoSuchLedgerError` when a newer one has replaced it."""
        password = self._options.password
        async with await self._catalog.open(snapshot.ledger, password=password) as reader:
            if ENCRYPTED not in reader._metadata.custom_metadata:
                return b"".join([entry.payload async for entry in reader.read()])
            return b"".join([self._decrypted(entry) async for entry in reader.read()])

    def _decrypted(self, entry: Entry) -> memoryview:
        opened = Decryption(self._name, self._options.keyring).open(
            entry.payload, 0, entry.ledger, entry.entry
        )
        return decode_batch(opened, entry.ledger, entry.entry).data

    def _chunks(self, state: bytes, metadata: LedgerMetadata) -> list[bytes]:
        chunks = [state[at : at + CHUNK_BYTES] for at in range(0, len(state), CHUNK_BYTES)] or [b""]
        if ENCRYPTED not in metadata.custom_metadata:
            return chunks
        encryption = Encryption.of(self._options.keyring, facts_of(metadata))
        assert encryption is not None
        return [
            encryption.seal(
                encode_batch([chunk], first_offset=entry, epoch=1, timestamp_ms=0),
                entry,
                NO_TXID,
            )
            for entry, chunk in enumerate(chunks)
        ]

    async def write(
        self,
        log_id: str,
        position: Position,
        offset: int,
        state: bytes,
        replication: Replication,
        *,
        read_needs_password: bool = False,
    ) -> bool:
        """Store a state; returns whether it is the newest now.

        With `read_needs_password` it is kept as the entries of the log are.
        """
        custom_metadata = {SERVICE: self._name, LOG_ID: log_id, OFFSET: str(offset)}
        if self._options.keyring is not None and self._options.keyring.current is not None:
            custom_metadata[ENCRYPTED] = "true"
        writer = await self._catalog.create(
            replication,
            password=self._options.password,
            digest=self._options.digest,
            custom_metadata=custom_metadata,
            read_needs_password=read_needs_password,
            salt=log_id.encode(),
        )
        snapshot = Snapshot(log_id, writer.ledger, position, offset)
        try:
            async with writer:
                await writer.append_many(self._chunks(state, writer._metadata))
        except BaseException:
            writer.abandon()
            with suppress(QuireError):  # else `gc` deletes it
                await self._catalog.delete(writer.ledger)
            raise
        obsolete = await self._install(snapshot)
        if obsolete is not None:
            with suppress(NoSuchLedgerError):
                await self._catalog.delete(obsolete)
        return obsolete != snapshot.ledger

    async def leave(self, log_id: str) -> Sequence[Change]:
        """Delete the newest state of a log that is being deleted, and return what forgets it.

        Raises the store's errors.
        """
        try:
            found = await self._store.get(self._path)
        except NoSuchNodeError:
            return []
        with suppress(CorruptRecordError):  # an unreadable record cannot belong to another log
            snapshot = Snapshot.decode(self._path, found.value)
            if snapshot.log_id != log_id:
                return []
            with suppress(NoSuchLedgerError):
                await self._catalog.delete(snapshot.ledger)
        return [Delete(self._path, found.version)]

    async def _install(self, snapshot: Snapshot) -> LedgerId | None:
        """Make a snapshot the newest; returns the ledger that is not needed now: its own when there
        is a newer one, or when its log is not there any more.
        """
        record = ManifestRecord(self._store, self._name)
        for _ in range(ATTEMPTS_MAX):
            found, version = await self._find()
            if found is not None and found.ledger == snapshot.ledger:
                return None
            manifest, at = await record.find()
            if manifest is None or manifest.retired or manifest.log_id != snapshot.log_id:
                return snapshot.ledger
            is_same_log = found is not None and found.log_id == snapshot.log_id
            if found is not None and is_same_log and found.offset >= snapshot.offset:
                return snapshot.ledger
            data = replace(snapshot, unknown=found.unknown if found else NOTHING).encode()
            change = Create(self._path, data) if version is None else Put(self._path, data, version)
            with suppress(ConflictError, NoSuchNodeError):
                # with the manifest: the log may be deleted and recreated in between
                await self._store.commit([*record.unchanged(manifest, at), change])
                return found.ledger if found is not None else None
        raise ConflictError(f"the snapshot of service {self._name!r} changed at every attempt")

    async def _find(self) -> tuple[Snapshot | None, int | None]:
        try:
            found = await self._store.get(self._path)
        except NoSuchNodeError:
            return None, None
        return Snapshot.decode(self._path, found.value), found.version


async def gc_snapshots(store: MetadataStore, catalog: LedgerCatalog) -> Sequence[LedgerId]:
    """Delete the ledgers of snapshots that no record names or will ever name; return them.

    This is certain once the service's record names a snapshot with as much of the same log.
    Raises the store's errors, and `CorruptRecordError`.
    """
    orphans: list[LedgerId] = []
    async for metadata in catalog.each():
        ledger, labels = metadata.ledger, metadata.custom_metadata
        if SERVICE in labels and await _is_outdone(store, ledger, labels):
            with suppress(NoSuchLedgerError):
                await catalog.delete(ledger)
                orphans.append(ledger)
    return orphans


async def _is_outdone(store: MetadataStore, ledger: LedgerId, labels: Mapping[str, str]) -> bool:
    path = service_path(labels[SERVICE])
    try:
        newest = Snapshot.decode(path, (await store.get(path)).value)
    except NoSuchNodeError:
        return False
    is_same_log = newest.log_id == labels.get(LOG_ID)
    offset = labels.get(OFFSET, "")
    return (
        ledger != newest.ledger
        and is_same_log
        and offset.isdecimal()
        and int(offset) <= newest.offset
    )
