"""Port 2 around a metadata store: tells an observer the records of ledgers.

Every record of a ledger that the process reads or writes is told with its version, before the
caller learns of it. So the history of a record is whole even if a process dies between its change
and the telling: the next change is based on a version that its process has read, and told.

Not here: the meaning of the records (metadata.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from quire.entry import LedgerId
from quire.errors import CorruptRecordError, InvalidRequestError, NoSuchNodeError
from quire.ledger.metadata import LedgerMetadata
from quire.metastore.changes import Change, Create, Delete, Put
from quire.metastore.layout import LEDGERS, parse_ledger
from quire.metastore.store import MetadataStore, Session, Versioned
from quire.observer import SILENT, Observer

TOLD_MAX: Final = 4096
"""Number of ledgers with a remembered version: the version told last is not told again."""


def observed(store: MetadataStore, observer: Observer) -> MetadataStore:
    """Return a store that tells an observer of ledgers' records; the same store without one.

    Closing the returned store closes `store`.
    """
    return store if observer is SILENT else ObservedStore(store, observer)


class ObservedStore:
    """See the module. Raises the store's errors."""

    def __init__(self, store: MetadataStore, observer: Observer) -> None:
        self._store = store
        self._observer = observer
        self._told: OrderedDict[LedgerId, int] = OrderedDict()

    @property
    def uri(self) -> str:
        """See `MetadataStore.uri`."""
        return self._store.uri

    async def get(self, path: str) -> Versioned:
        """See `MetadataStore.get`."""
        try:
            found = await self._store.get(path)
        except NoSuchNodeError:
            self._gone(path)
            raise
        self._tell(path, found.value, found.version)
        return found

    async def create(self, path: str, value: bytes) -> int:
        """See `MetadataStore.create`."""
        version = await self._store.create(path, value)
        self._tell(path, value, version)
        return version

    async def put(self, path: str, value: bytes, version: int) -> int:
        """See `MetadataStore.put`."""
        after = await self._store.put(path, value, version)
        self._tell(path, value, after)
        return after

    async def delete(self, path: str, version: int | None = None) -> None:
        """See `MetadataStore.delete`."""
        self._deleting(path)
        try:
            await self._store.delete(path, version)
        except NoSuchNodeError:
            self._gone(path)
            raise
        self._gone(path)

    async def commit(self, changes: Sequence[Change]) -> dict[str, int]:
        """See `MetadataStore.commit`."""
        deleted = [change.path for change in changes if isinstance(change, Delete)]
        for path in deleted:
            self._deleting(path)
        try:
            versions = await self._store.commit(changes)
        except NoSuchNodeError as error:
            self._gone(error.path)
            raise
        for path in deleted:
            self._gone(path)
        for change in changes:
            if isinstance(change, Create | Put):
                self._tell(change.path, change.value, versions[change.path])
        return versions

    async def children(self, path: str) -> list[str]:
        """See `MetadataStore.children`."""
        return await self._store.children(path)

    async def changed(self, seen: Mapping[str, int | None]) -> list[str]:
        """See `MetadataStore.changed`."""
        return await self._store.changed(seen)

    async def wait(self, path: str, version: int | None) -> None:
        """See `MetadataStore.wait`."""
        await self._store.wait(path, version)

    async def wait_children(self, path: str, names: list[str]) -> None:
        """See `MetadataStore.wait_children`."""
        await self._store.wait_children(path, names)

    async def open_session(self, timeout: float) -> Session:
        """See `MetadataStore.open_session`."""
        return await self._store.open_session(timeout)

    async def close(self) -> None:
        """See `MetadataStore.close`."""
        await self._store.close()

    def _tell(self, path: str, value: bytes, version: int) -> None:
        ledger = _ledger_of(path)
        if ledger is None or self._told.get(ledger) == version:
            return
        with suppress(CorruptRecordError):
            tell_record(self._observer, LedgerMetadata.decode(path, value), version)
            self._told[ledger] = version
            self._told.move_to_end(ledger)
            if len(self._told) > TOLD_MAX:
                self._told.popitem(last=False)

    def _deleting(self, path: str) -> None:
        ledger = _ledger_of(path)
        if ledger is not None:
            self._observer.deleting(ledger)

    def _gone(self, path: str) -> None:
        ledger = _ledger_of(path)
        if ledger is not None:
            self._observer.deleted(ledger)


def tell_record(observer: Observer, metadata: LedgerMetadata, version: int) -> None:
    """Tell an observer the record of a ledger at a version."""
    quorums = metadata.replication
    observer.recorded(
        metadata.ledger,
        version,
        metadata.state.value,
        (quorums.ensemble, quorums.write_quorum, quorums.ack_quorum),
        [(fragment.first, fragment.bookies) for fragment in metadata.fragments],
        metadata.last_entry,
    )


def _ledger_of(path: str) -> LedgerId | None:
    """Return the ledger with its record at a path, None for any other record."""
    if not path.startswith(LEDGERS + "/"):
        return None
    with suppress(InvalidRequestError):
        return parse_ledger(path.rpartition("/")[2])
    return None
