"""Where a roster finds the registered bookies: quire's own records, or another system's."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import NamedTuple, Protocol

from quire.bookie import BookieAddress
from quire.entry import BookieId
from quire.errors import NoSuchNodeError
from quire.metastore.layout import BOOKIES, bookie_path
from quire.metastore.registration import decode_registration
from quire.metastore.store import MetadataStore


class Registered(NamedTuple):
    """A registration as it was read: how to decode it (None if it is missing), and its version."""

    address: Callable[[], BookieAddress] | None
    """Raises `CorruptRecordError`."""
    version: Hashable


class Registrations(Protocol):
    """The registrations of a system. Every call raises the store's errors."""

    async def names(self) -> list[BookieId]:
        """Return the registered bookies, sorted."""
        ...

    async def wait_names(self, names: list[BookieId]) -> None:
        """Return when the registered bookies may differ from `names`."""
        ...

    async def read(self, bookie: BookieId) -> Registered:
        """Return a bookie's registration."""
        ...

    async def wait(self, bookie: BookieId, version: Hashable) -> None:
        """Return when a registration may no longer be at a version that `read` returned."""
        ...


class StoredRegistrations:
    """quire's own: one record for each bookie."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def names(self) -> list[BookieId]:
        """See `Registrations.names`."""
        return await self._store.children(BOOKIES)

    async def wait_names(self, names: list[BookieId]) -> None:
        """See `Registrations.wait_names`."""
        await self._store.wait_children(BOOKIES, names)

    async def read(self, bookie: BookieId) -> Registered:
        """See `Registrations.read`."""
        try:
            record = await self._store.get(bookie_path(bookie))
        except NoSuchNodeError:
            return Registered(None, None)
        return Registered(partial(decode_registration, bookie, record.value), record.version)

    async def wait(self, bookie: BookieId, version: Hashable) -> None:
        """See `Registrations.wait`."""
        assert version is None or isinstance(version, int)
        await self._store.wait(bookie_path(bookie), version)
