"""Ledgers of Apache BookKeeper's metadata on a bookie of quire.

    bookie's own records    below `quire-bookies` and the path of the cluster's ledgers
    cluster of its disk     `bookkeeper:` and the instance of the Apache cluster

So the bookie never meets ledgers of quire's own metadata, and is refused under another instance: a
cluster that was made anew knows none of its ledgers.

A ledger may begin at the bookie when its record is there: clients write it before they send an
entry. That holds for ids that an application chose, too, which no counter tells of.

A ledger was deleted when its record is absent. But a store that was put back from a backup lacks
the records of later ledgers, so an absence counts only for ids below a new one, drawn from the
cluster's supply for each round: in such a store the new id is low. Ledgers with higher ids
are kept: an application chose these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from random import Random
from typing import Final

from quire.aio.backoff import Backoff
from quire.aio.retry import retry
from quire.aio.timing import time_limit
from quire.bookie import BookieAddress
from quire.bookkeeper.layouts import (
    AVAILABLE,
    INSTANCE,
    LAYOUT,
    READ_ONLY,
    Form,
    Layout,
    read_layout,
)
from quire.bookkeeper.ledger_ids import LedgerIdSupply
from quire.bookkeeper.registration import PROTOCOL, decode_registration, encode_registration
from quire.bookkeeper.serving.port import serve_bookkeeper
from quire.bookkeeper.uri import ApacheLedgers, split_uri
from quire.entry import BookieId, LedgerId
from quire.errors import (
    ConfigurationError,
    InvalidRequestError,
    NodeExistsError,
    NoSuchNodeError,
    RetryError,
    StoreWentBackError,
    WrongBookieError,
)
from quire.metastore import create_store, open_store
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER, name_of, parent_of
from quire.metastore.levels import SPEAKS
from quire.metastore.store import MetadataStore
from quire.storage.identity.cookie import BookieCookie
from quire.storage.identity.registration import RegistrationForm
from quire.storage.ledger_system import OTHER, LedgerSystem
from quire.storage.maintenance.deletions import SameStore
from quire.storage.maintenance.garbage import Deletions
from quire.storage.node import BookieNode
from quire.storage.serving.births import ASK_SECONDS, GivenIds
from quire.storage.serving.grpc_service import OpenDoor
from quire.storage.serving.limits import Reception
from quire.wire.tls import Contexts
from quire.wire.transport import advertised

BOOKIES: Final = "quire-bookies"
"""Below the root of the store: the own records of bookies that keep Apache's ledgers."""

FACTORY: Final = f"org.apache.bookkeeper.meta.{Form.HIERARCHICAL.value}"
LAYOUT_VALUE: Final = f"2\n{FACTORY}:1".encode()
BACKOFF: Final = Backoff(first=0.1, last=0.1)


def own_store(base: str, ledgers: ApacheLedgers) -> str:
    """Return the URI of the bookies' own records, for the store of a cluster's ledgers. Pure."""
    where, question, options = base.partition("?")
    return f"{where.rstrip('/')}/{BOOKIES}{ledgers.root}{question}{options}"


def writable(uri: str) -> tuple[str, ApacheLedgers] | None:
    """Return the store and the ledgers that a URI names; None for ledgers of quire's own.

    Raises `ConfigurationError` for another URI, and for one without `write=true`.
    """
    base, ledgers = split_uri(uri)
    if ledgers is None:
        return None
    if not ledgers.write:
        raise ConfigurationError(f"{uri!r}: a bookie changes records: add &write=true")
    return base, ledgers


async def _instance(store: MetadataStore, root: str) -> str:
    return (await store.get(f"{root}/{INSTANCE}")).value.decode(errors="replace").strip()


def cluster_of(instance: str) -> str:
    """Return the id of the cluster on the disks of an Apache cluster's bookies."""
    return f"{PROTOCOL}{OTHER}{instance}"


async def found_cluster(base: str, ledgers: ApacheLedgers, rng: Random) -> str:
    """Make the records that an Apache cluster begins with, as far as they are missing, and those
    of its bookies of quire; return the URI of the latter, for the format of a directory.

    Raises the store's errors, and `CorruptRecordError` and `UnsupportedError` for a layout that is
    not known.
    """
    root, own = ledgers.root, own_store(base, ledgers)
    store = await create_store(base)
    try:
        for name, value in (
            (f"{AVAILABLE}/{READ_ONLY}", b""),
            (INSTANCE, f"{rng.getrandbits(128):032x}".encode()),
            (LAYOUT, LAYOUT_VALUE),
        ):
            with suppress(NodeExistsError):
                await store.create(f"{root}/{name}", value)
        read_layout(f"{root}/{LAYOUT}", (await store.get(f"{root}/{LAYOUT}")).value)
        instance = await _instance(store, root)
    finally:
        await store.close()
    mine = await create_store(own)
    try:
        cluster = Cluster(cluster_of(instance), level=SPEAKS.highest)
        with suppress(NodeExistsError):
            await mine.create(CLUSTER, cluster.encode())
    finally:
        await mine.close()
    return own


class SameInstance:
    """Whether a store still belongs to the cluster that a bookie's disk names."""

    def __init__(self, store: MetadataStore, root: str, own: SameStore, cluster: str) -> None:
        self._store = store
        self._root = root
        self._own = own
        self._cluster = cluster

    async def check(self) -> None:
        """Raise `WrongBookieError` for another instance, or another layout's records, and as
        `SameStore.check`.
        """
        await self._own.check()
        found = cluster_of(await _instance(self._store, self._root))
        if found != self._cluster:
            name = f"the cluster {self._root} of {self._store.uri}"
            raise WrongBookieError(name, self._cluster, found)


class RecordedIds:
    """Ledgers may begin when their record is there. Implements `GivenIds`."""

    below: LedgerId = 0

    def __init__(self, store: MetadataStore, layout: Layout, same: SameInstance) -> None:
        self._store = store
        self._layout = layout
        self._same = same

    async def is_born(self, ledger: LedgerId) -> bool:
        """See `GivenIds.is_born`."""
        async with time_limit(ASK_SECONDS):
            return await retry(partial(self._is_there, ledger), on=RetryError, backoff=BACKOFF)

    async def _is_there(self, ledger: LedgerId) -> bool:
        try:
            await self._store.get(self._layout.path(ledger))
        except (NoSuchNodeError, InvalidRequestError):
            return False
        return True

    async def check(self, held_below: LedgerId) -> None:
        """See `GivenIds.check`. Ids that applications chose need not be below any other."""
        await self._same.check()

    async def close(self) -> None:
        """See `GivenIds.close`."""


class RecordedDeletions:
    """The collector's port `Deletions` over Apache's records. See the module."""

    def __init__(self, store: MetadataStore, layout: Layout, same: SameInstance) -> None:
        self._store = store
        self._layout = layout
        self._same = same
        self._ids = LedgerIdSupply(store, layout)
        self._drawn: LedgerId = -1

    async def deleted(self, ledgers: Sequence[LedgerId]) -> list[LedgerId]:
        """See `Deletions.deleted`.

        Raises the store's errors, `WrongBookieError` when it is not the store of this cluster any
        more, and `StoreWentBackError` when it gives out an id that is lower than an earlier one.
        """
        await self._same.check()
        following = await self._next_id()
        gone: list[LedgerId] = []
        known = sorted(each for each in ledgers if 0 <= each < following)
        path = self._layout.path
        for place, members in groupby(known, key=lambda each: parent_of(path(each))):
            listed = frozenset(await self._store.children(place))
            missing = [each for each in members if name_of(path(each)) not in listed]
            gone += [each for each in missing if await self._is_absent(each)]
        await self._same.check()
        return gone

    async def _next_id(self) -> LedgerId:
        drawn = await self._ids.next()
        if drawn <= self._drawn:
            raise StoreWentBackError(
                f"metadata store {self._store.uri}",
                f"it gave out ledger id {drawn} after {self._drawn}",
            )
        self._drawn = drawn
        return drawn

    async def _is_absent(self, ledger: LedgerId) -> bool:
        try:
            await self._store.get(self._layout.path(ledger))
        except NoSuchNodeError:
            return True
        return False


class ApacheForm:
    """Registrations as Apache's bookies make them. Implements `RegistrationForm`."""

    def __init__(self, root: str) -> None:
        self._root = root

    def path(self, address: BookieAddress) -> str:
        """See `RegistrationForm.path`."""
        return self._place(address, writable=address.writable)

    def others(self, address: BookieAddress) -> Sequence[str]:
        """See `RegistrationForm.others`."""
        return (self._place(address, writable=not address.writable),)

    def _place(self, address: BookieAddress, *, writable: bool) -> str:
        place = AVAILABLE if writable else f"{AVAILABLE}/{READ_ONLY}"
        return f"{self._root}/{place}/{address.bookie}"

    def encode(self, address: BookieAddress, found: bytes | None = None) -> bytes:
        """See `RegistrationForm.encode`."""
        return encode_registration(address)

    def address_in(self, bookie: BookieId, found: bytes) -> str:
        """See `RegistrationForm.address_in`."""
        path = f"{self._root}/{AVAILABLE}/{bookie}"
        return decode_registration(path, bookie, found, writable=True).address


class BookKeeperSystem:
    """See the module. Implements `LedgerSystem`; made by `bookkeeper_system`."""

    def __init__(
        self,
        store: MetadataStore,
        layout: Layout,
        same: SameInstance,
        listen: str,
        advertise: str | None,
        tls: Contexts | None,
    ) -> None:
        self._tls = tls
        self.store = store
        self.form: RegistrationForm = ApacheForm(layout.root)
        self.given: GivenIds = RecordedIds(store, layout, same)
        self.deletions: Deletions = RecordedDeletions(store, layout, same)
        self._listen = listen
        self._advertise = advertise
        self._address = ""

    def doors(self, node: BookieNode) -> Sequence[OpenDoor]:
        """See `LedgerSystem.doors`."""

        @asynccontextmanager
        async def door(reception: Reception, connections: int) -> AsyncIterator[str]:
            serving = serve_bookkeeper(reception, node, self._listen, connections, self._tls)
            async with serving as address:
                self._address = advertised(address, self._advertise)
                yield self._address

        return (door,)

    def address(self, served: BookieAddress) -> BookieAddress:
        """See `LedgerSystem.address`."""
        return replace(
            served, address=self._address, runs=None, says_hello=False, protocol=PROTOCOL
        )


@asynccontextmanager
async def bookkeeper_system(
    own: MetadataStore,
    cookie: BookieCookie,
    *,
    base: str,
    ledgers: ApacheLedgers,
    listen: str,
    advertise: str | None = None,
    tls: Contexts | None = None,
) -> AsyncIterator[LedgerSystem]:
    """Open the system of an Apache cluster's ledgers for a bookie.

    Args:
        own: the store of the bookie's own records.
        cookie: the identity of its disk.
        base: the URI of the store of the cluster.
        ledgers: the path of the cluster's ledgers there.
        listen: host:port for clients of Apache's.
        advertise: the host that clients are told, instead of the one of `listen`.
        tls: the certificates of that port; None for a port without TLS.

    Raises:
        ConfigurationError: the address cannot be told to clients.
        WrongBookieError: the disk is of another cluster.
        CorruptRecordError, UnsupportedError: the layout is not known.
        QuireError: the store's errors.
    """
    advertised(listen, advertise)
    store = await open_store(base)
    try:
        path = f"{ledgers.root}/{LAYOUT}"
        layout = Layout(ledgers.root, read_layout(path, (await store.get(path)).value))
        same = SameInstance(store, ledgers.root, SameStore(own, cookie.cluster), cookie.cluster)
        await same.check()
        yield BookKeeperSystem(store, layout, same, listen, advertise, tls)
    finally:
        await store.close()
