"""The registered bookies of an Apache BookKeeper cluster, for the roster."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from quire.aio.tasks import first_of
from quire.bookie import BookieAddress
from quire.bookkeeper.layouts import AVAILABLE, READ_ONLY
from quire.bookkeeper.registration import decode_registration, is_bookie
from quire.entry import BookieId
from quire.errors import NoSuchNodeError
from quire.ledger.registrations import Registered
from quire.metastore.store import MetadataStore, Versioned


class ApacheRegistrations:
    """The records below `available`, and below `available/readonly`. Implements
    `quire.ledger.registrations.Registrations`.
    """

    def __init__(self, root: str, store: MetadataStore) -> None:
        self._store = store
        self._writable = f"{root}/{AVAILABLE}"
        self._read_only = f"{self._writable}/{READ_ONLY}"

    async def names(self) -> list[BookieId]:
        """See `Registrations.names`."""
        writable, read_only = await self._lists()
        return sorted(filter(is_bookie, {*writable, *read_only}))

    async def _lists(self) -> tuple[list[str], list[str]]:
        return await asyncio.gather(
            self._store.children(self._writable), self._store.children(self._read_only)
        )

    async def wait_names(self, names: list[BookieId]) -> None:
        """See `Registrations.wait_names`."""
        writable, read_only = await self._lists()
        if sorted(filter(is_bookie, {*writable, *read_only})) == names:
            await first_of(
                self._store.wait_children(self._writable, writable),
                self._store.wait_children(self._read_only, read_only),
            )

    async def read(self, bookie: BookieId) -> Registered:
        """See `Registrations.read`. A bookie that changes over may have both records, or none."""
        read_only, writable = await asyncio.gather(
            self._find(f"{self._read_only}/{bookie}"), self._find(f"{self._writable}/{bookie}")
        )
        version = tuple(None if each is None else each.version for each in (writable, read_only))
        found = writable or read_only
        if found is None:
            return Registered(None, version)
        path = f"{self._writable if writable else self._read_only}/{bookie}"

        def address() -> BookieAddress:
            return decode_registration(path, bookie, found.value, writable=read_only is None)

        return Registered(address, version)

    async def _find(self, path: str) -> Versioned | None:
        try:
            return await self._store.get(path)
        except NoSuchNodeError:
            return None

    async def wait(self, bookie: BookieId, version: Hashable) -> None:
        """See `Registrations.wait`."""
        assert isinstance(version, tuple)
        writable, read_only = version
        await first_of(
            self._store.wait(f"{self._writable}/{bookie}", writable),
            self._store.wait(f"{self._read_only}/{bookie}", read_only),
        )
