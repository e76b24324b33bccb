"""The parts of a client for ledgers on Apache BookKeeper, for its composition root."""

from __future__ import annotations

import asyncio
from functools import partial

from quire.bookie import BookieAddress
from quire.bookkeeper.apache_bookie import ApacheBookie
from quire.bookkeeper.read_only import ReadOnlyStore
from quire.bookkeeper.records import ApacheRecords, open_records
from quire.bookkeeper.registration import PROTOCOL
from quire.bookkeeper.registrations import ApacheRegistrations
from quire.bookkeeper.shared_adds import SharedAdds
from quire.bookkeeper.tls import ClientTls
from quire.bookkeeper.uri import ApacheLedgers
from quire.ledger.roster import BookieRoster
from quire.metastore.store import MetadataStore


class ApacheCluster:
    """A cluster that a URI names."""

    def __init__(self, ledgers: ApacheLedgers, tls: ClientTls | None) -> None:
        self._ledgers = ledgers
        self._tls = tls

    @classmethod
    async def open(cls, ledgers: ApacheLedgers) -> ApacheCluster:
        """Return the cluster. Raises `ConfigurationError` for files of certificates that cannot be
        used.
        """
        if ledgers.tls is None:
            return cls(ledgers, None)
        clock = asyncio.get_running_loop().time
        return cls(ledgers, await asyncio.to_thread(ClientTls, ledgers.tls, clock=clock))

    @property
    def is_writable(self) -> bool:
        """Whether anything may be changed."""
        return self._ledgers.write

    def guarded(self, store: MetadataStore) -> MetadataStore:
        """Return the metadata store, without its changes if nothing may be changed."""
        return store if self.is_writable else ReadOnlyStore(store)

    async def records(self, store: MetadataStore) -> ApacheRecords:
        """Return the records of the cluster's ledgers. Raises as `open_records`."""
        return await open_records(store, self._ledgers.root, self._ledgers.digest)

    def roster(self, store: MetadataStore, request_timeout: float) -> BookieRoster:
        """Return the cluster's bookies; the caller starts it."""

        adds = SharedAdds()

        def link(address: BookieAddress) -> ApacheBookie:
            return ApacheBookie(address, request_timeout=request_timeout, tls=self._tls, adds=adds)

        found = partial(ApacheRegistrations, self._ledgers.root)
        return BookieRoster(store, link, (PROTOCOL,), found)
