"""Every `LedgerRecords` under test: quire's own over each store, and one that can do least."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from quire.bookkeeper.layouts import Layout
from quire.bookkeeper.records import ApacheRecords
from quire.entry import DigestKind
from quire.errors import UnsupportedError
from quire.ledger.domains import ANYWHERE
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.records import LedgerRecords, RecordsCapability, VersionedMetadata
from quire.ledger.stored_records import StoredRecords
from quire.metastore.changes import Change
from quire.metastore.store import MetadataStore
from tests.support.store_backends import BACKENDS, Backend


class LeastRecords(StoredRecords):
    """Records that hold what every system's records hold, and nothing else."""

    capabilities = frozenset()  # type: ignore[misc]

    async def create(
        self, metadata: LedgerMetadata, along: Sequence[Change] = (), *, password: bytes = b""
    ) -> VersionedMetadata:
        self._refuse(RecordsCapability.TRANSACTIONS, along)
        self._refuse(RecordsCapability.CUSTOM, metadata.custom_metadata)
        has_policy = metadata.full_quorum or metadata.placement != ANYWHERE
        self._refuse(RecordsCapability.POLICY, has_policy)
        return await super().create(replace(metadata, token="", incarnation=0))

    def guard(self, held: VersionedMetadata) -> Sequence[Change]:
        raise UnsupportedError(self.uri, RecordsCapability.TRANSACTIONS.value)

    async def delete(
        self, ledger: int, version: int | None = None, along: Sequence[Change] = ()
    ) -> None:
        self._refuse(RecordsCapability.TRANSACTIONS, along)
        await super().delete(ledger, version)

    async def suspects(self, metadata: LedgerMetadata) -> Sequence[str]:
        return ()

    def _refuse(self, capability: RecordsCapability, wanted: object) -> None:
        if wanted:
            raise UnsupportedError(self.uri, capability.value)


def apache(store: MetadataStore, rng: random.Random) -> LedgerRecords:
    return ApacheRecords(store, Layout("/ledgers"), DigestKind.CRC32)


@dataclass(frozen=True)
class Records:
    """How to open the records of one tree, and what they can do."""

    backend: Callable[[Path], Backend]
    over: Callable[[MetadataStore, random.Random], LedgerRecords]
    capabilities: frozenset[RecordsCapability]


SUBJECTS: Final[dict[str, Records]] = {
    **{
        name: Records(backend, StoredRecords, StoredRecords.capabilities)
        for name, backend in BACKENDS.items()
    },
    **{
        f"apache-{name}": Records(BACKENDS[name], apache, ApacheRecords.capabilities)
        for name in ("memory", "zookeeper")
    },
    "least": Records(BACKENDS["memory"], LeastRecords, LeastRecords.capabilities),
}


@dataclass(frozen=True)
class Subject:
    """Two clients of one tree, and the store below the first."""

    one: LedgerRecords
    other: LedgerRecords
    store: MetadataStore


Check: TypeAlias = Callable[[Subject], Awaitable[None]]
Run: TypeAlias = Callable[[Check], None]
