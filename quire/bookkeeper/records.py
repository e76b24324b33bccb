"""The port `LedgerRecords` over the metadata of an Apache BookKeeper cluster.

A record keeps what quire does not know of when its metadata change, so every change begins with a
read of the record at the version that the caller holds (metadata_format.py). A store that is put
back from a backup leaves no trace in these records, so no bookie is ever suspect.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from quire.bookkeeper.layouts import (
    LAYOUT,
    Layout,
    is_directory,
    last_digits,
    read_layout,
)
from quire.bookkeeper.ledger_ids import LedgerIdSupply
from quire.bookkeeper.metadata_format import ApacheRecord, decode, new_record
from quire.entry import BookieId, DigestKind, LedgerId
from quire.errors import (
    ConfigurationError,
    NoSuchLedgerError,
    NoSuchNodeError,
    UnsupportedError,
    VersionConflictError,
)
from quire.ledger.domains import ANYWHERE
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.new_record import create_record
from quire.ledger.records import NewId, RecordsCapability, VersionedMetadata
from quire.metastore.changes import Change, Check, Delete
from quire.metastore.store import MetadataStore


class ApacheRecords:
    """See the module. Implements `quire.ledger.records.LedgerRecords`; made by `open_records`."""

    capabilities: Final = frozenset(
        {RecordsCapability.TRANSACTIONS, RecordsCapability.CUSTOM, RecordsCapability.TOKEN}
    )

    def __init__(self, store: MetadataStore, layout: Layout, digest: DigestKind) -> None:
        self._store = store
        self._layout = layout
        self._digest = digest
        self._ids = LedgerIdSupply(store, layout)

    @property
    def uri(self) -> str:
        """See `LedgerRecords.uri`."""
        return self._store.uri

    @property
    def root(self) -> str:
        """The path of the cluster's ledgers."""
        return self._layout.root

    async def feature_level(self) -> int:
        """See `LedgerRecords.feature_level`."""
        return 0

    def name(self, ledger: LedgerId) -> str:
        """See `LedgerRecords.name`."""
        return self._layout.path(ledger)

    def path(self, ledger: LedgerId) -> None:
        """See `LedgerRecords.path`: Apache's records have versions of their own."""
        return

    async def create(
        self, metadata: LedgerMetadata, along: Sequence[Change] = (), *, password: bytes = b""
    ) -> VersionedMetadata:
        """See `LedgerRecords.create`. The record keeps the password, as Apache's clients expect."""
        is_guarded = metadata.read_needs_password
        is_stretched = metadata.stretch is not None
        if metadata.full_quorum or metadata.placement != ANYWHERE or is_guarded or is_stretched:
            raise UnsupportedError(
                f"the BookKeeper cluster {self._layout.root} of {self.uri}",
                RecordsCapability.POLICY.value,
            )
        path = self._layout.path(metadata.ledger)
        record = new_record(metadata, password)
        value = record.encode()
        return VersionedMetadata(metadata, await create_record(self._store, path, value, along))

    async def read(self, ledger: LedgerId) -> VersionedMetadata:
        """See `LedgerRecords.read`."""
        record, version = await self._read(ledger)
        return VersionedMetadata(record.metadata, version)

    async def _read(self, ledger: LedgerId) -> tuple[ApacheRecord, int]:
        path = self._layout.path(ledger)
        try:
            found = await self._store.get(path)
        except NoSuchNodeError:
            raise NoSuchLedgerError(ledger) from None
        return decode(path, ledger, found.value, self._digest), found.version

    async def change(self, metadata: LedgerMetadata, version: int) -> VersionedMetadata:
        """See `LedgerRecords.change`."""
        path = self._layout.path(metadata.ledger)
        record, found = await self._read(metadata.ledger)
        if found != version:
            raise VersionConflictError(path, version)
        record = record.with_metadata(metadata)
        try:
            after = await self._store.put(path, record.encode(), version)
        except NoSuchNodeError:
            raise NoSuchLedgerError(metadata.ledger) from None
        return VersionedMetadata(metadata, after)

    def guard(self, held: VersionedMetadata) -> Sequence[Change]:
        """See `LedgerRecords.guard`. The version stays."""
        return (Check(self._layout.path(held.metadata.ledger), held.version),)

    async def delete(
        self, ledger: LedgerId, version: int | None = None, along: Sequence[Change] = ()
    ) -> None:
        """See `LedgerRecords.delete`. Directories that have become empty stay."""
        path = self._layout.path(ledger)
        try:
            if along:
                await self._store.commit([Delete(path, version), *along])
            else:
                await self._store.delete(path, version)
        except NoSuchNodeError as error:
            if error.path != path:
                raise
            raise NoSuchLedgerError(ledger) from None

    async def _below(
        self, path: str, digits: str, widths: Sequence[int]
    ) -> AsyncIterator[list[LedgerId]]:
        names = await self._store.children(path)
        if widths:
            for name in names:
                if is_directory(name, widths[0]):
                    async for page in self._below(f"{path}/{name}", digits + name, widths[1:]):
                        yield page
            return
        ends = [each for each in map(last_digits, names) if each is not None]
        yield [int(digits + each) for each in ends]

    async def wait(self, ledger: LedgerId, version: int) -> None:
        """See `LedgerRecords.wait`."""
        await self._store.wait(self._layout.path(ledger), version)

    async def list(self, after: LedgerId = -1) -> AsyncIterator[Sequence[LedgerId]]:
        """See `LedgerRecords.list`. A page is a directory."""
        for widths in self._layout.depths:
            async for page in self._below(self._layout.root, "", widths):
                if found := [each for each in page if each > after]:
                    yield found

    async def next_id(self) -> NewId:
        """See `LedgerRecords.next_id`."""
        return NewId(await self._ids.next())

    async def skip_id(self) -> LedgerId:
        """See `LedgerRecords.skip_id`."""
        return await self._ids.next()

    async def suspects(self, metadata: LedgerMetadata) -> Sequence[BookieId]:
        """See `LedgerRecords.suspects`: none."""
        return ()


async def open_records(
    store: MetadataStore, root: str, digest: DigestKind = DigestKind.CRC32
) -> ApacheRecords:
    """Return the records of the cluster below a path.

    Args:
        store: the metadata store.
        root: the path of the cluster's ledgers, `/ledgers` by default there.
        digest: the digest of ledgers if their records have none.

    Raises:
        ConfigurationError: no cluster is there.
        CorruptRecordError, UnsupportedError: its layout is not known.
    """
    path = f"{root}/{LAYOUT}"
    try:
        found = await store.get(path)
    except NoSuchNodeError:
        raise ConfigurationError(
            f"{store.uri} has no {path}: give the path of an Apache BookKeeper cluster's ledgers, "
            "as in ledgers=bookkeeper:/ledgers"
        ) from None
    return ApacheRecords(store, Layout(root, read_layout(path, found.value)), digest)
