"""The port `LedgerRecords` over a metadata store: quire's own records of ledgers.

A record is at `/quire/ledgers/<shard>/<ledger>` in quire's encoding; ids come from the counter
(ids.py). A shard that has become empty is deleted with its last record: ids only grow, and listing
visits every shard.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final

from quire.entry import BookieId, LedgerId
from quire.errors import (
    ConflictError,
    LevelNeededError,
    NoSuchLedgerError,
    NoSuchNodeError,
    OutcomeUnknownError,
    RetryError,
)
from quire.ledger.domains import ANYWHERE
from quire.ledger.ids import LedgerIds
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.new_record import create_record
from quire.ledger.records import NewId, RecordsCapability, VersionedMetadata
from quire.ledger.recovery_plan import is_older
from quire.metastore.changes import Change, Delete, Put
from quire.metastore.cluster import adopted_incarnation, read_cluster
from quire.metastore.layout import (
    BOOKIES,
    COOKIES,
    LEDGERS,
    LEDGERS_PER_SHARD,
    ledger_path,
    parent_of,
    parse_ledger,
)
from quire.metastore.levels import READ_PASSWORD_LEVEL, SPEAKS, STRETCH_LEVEL
from quire.metastore.store import MetadataStore

PLACEMENT_LEVEL: Final = 2
"""Programs of level 1 would drop a placement, and recover without counting domains."""


class StoredRecords:
    """See the module. Implements `quire.ledger.records.LedgerRecords`."""

    capabilities: Final = frozenset(RecordsCapability)

    def __init__(self, store: MetadataStore, rng: random.Random) -> None:
        self._store = store
        self._ids = LedgerIds(store, rng)

    @property
    def uri(self) -> str:
        """See `LedgerRecords.uri`."""
        return self._store.uri

    async def feature_level(self) -> int:
        """See `LedgerRecords.feature_level`. A store of ledgers alone has this program's."""
        try:
            return (await read_cluster(self._store)).level
        except NoSuchNodeError:
            return SPEAKS.highest

    def name(self, ledger: LedgerId) -> str:
        """See `LedgerRecords.name`."""
        return ledger_path(ledger)

    def path(self, ledger: LedgerId) -> str | None:
        """See `LedgerRecords.path`."""
        return ledger_path(ledger)

    async def create(
        self, metadata: LedgerMetadata, along: Sequence[Change] = (), *, password: bytes = b""
    ) -> VersionedMetadata:
        """See `LedgerRecords.create`. `ConflictError`: the shard was deleted as empty meanwhile."""
        if metadata.placement != ANYWHERE:
            await self._check_level("a placement", PLACEMENT_LEVEL)
        if metadata.read_needs_password:
            await self._check_level("a password for reads", READ_PASSWORD_LEVEL)
        if metadata.stretch is not None:
            await self._check_level("a stretched password", STRETCH_LEVEL)
        path, value = ledger_path(metadata.ledger), metadata.encode()
        return VersionedMetadata(metadata, await create_record(self._store, path, value, along))

    async def _check_level(self, what: str, level: int) -> None:
        """Raise before programs that do not know what a ledger needs could have to do with it."""
        if (found := await self.feature_level()) < level:
            raise LevelNeededError(what, level, found)

    async def read(self, ledger: LedgerId) -> VersionedMetadata:
        """See `LedgerRecords.read`."""
        path = ledger_path(ledger)
        try:
            found = await self._store.get(path)
        except NoSuchNodeError:
            raise NoSuchLedgerError(ledger) from None
        return VersionedMetadata(LedgerMetadata.decode(path, found.value), found.version)

    async def change(self, metadata: LedgerMetadata, version: int) -> VersionedMetadata:
        """See `LedgerRecords.change`."""
        path = ledger_path(metadata.ledger)
        try:
            after = await self._store.put(path, metadata.encode(), version)
        except NoSuchNodeError:
            raise NoSuchLedgerError(metadata.ledger) from None
        return VersionedMetadata(metadata, after)

    def guard(self, held: VersionedMetadata) -> Sequence[Change]:
        """See `LedgerRecords.guard`. Moves the version on."""
        metadata = held.metadata
        return (Put(ledger_path(metadata.ledger), metadata.encode(), held.version),)

    async def delete(
        self, ledger: LedgerId, version: int | None = None, along: Sequence[Change] = ()
    ) -> None:
        """See `LedgerRecords.delete`."""
        path = ledger_path(ledger)
        try:
            if along:
                await self._store.commit([Delete(path, version), *along])
            else:
                await self._store.delete(path, version)
        except NoSuchNodeError as error:
            if error.path != path:
                raise
            await self._delete_shard(parent_of(path))  # an earlier deletion may have left it
            raise NoSuchLedgerError(ledger) from None
        await self._delete_shard(parent_of(path))

    async def _delete_shard(self, shard: str) -> None:
        with suppress(ConflictError, NoSuchNodeError, OutcomeUnknownError, RetryError):
            await self._store.delete(shard)

    async def wait(self, ledger: LedgerId, version: int) -> None:
        """See `LedgerRecords.wait`."""
        await self._store.wait(ledger_path(ledger), version)

    async def list(self, after: LedgerId = -1) -> AsyncIterator[Sequence[LedgerId]]:
        """See `LedgerRecords.list`. A page is a shard."""
        for shard in await self._store.children(LEDGERS):
            if (int(shard) + 1) * LEDGERS_PER_SHARD <= after + 1:
                continue
            names = await self._store.children(f"{LEDGERS}/{shard}")
            if page := [each for each in map(parse_ledger, names) if each > after]:
                yield page

    async def next_id(self) -> NewId:
        """See `LedgerRecords.next_id`."""
        return NewId(await self._ids.next(), self._ids.incarnation)

    async def skip_id(self) -> LedgerId:
        """See `LedgerRecords.skip_id`."""
        return await self._ids.skip()

    async def suspects(self, metadata: LedgerMetadata) -> Sequence[BookieId]:
        """See `LedgerRecords.suspects`: every bookie with a cookie or a registration."""
        if not is_older(metadata, await adopted_incarnation(self._store)):
            return ()
        return [*await self._store.children(COOKIES), *await self._store.children(BOOKIES)]
