"""The metadata system that a bookie's ledgers belong to: quire's own, or another.

A bookie belongs to one system. Its ids, its registration and the proof that a ledger was deleted
come from there, so ids of two systems never meet on one disk. The id of a bookie's cluster, on its
disk, names the system: a bookie is never served for another system. The collector of another
system would take every ledger for deleted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol, TypeAlias

from quire.bookie import BookieAddress
from quire.errors import ConfigurationError
from quire.metastore.store import MetadataStore
from quire.storage.identity.cookie import BookieCookie
from quire.storage.identity.registration import OWN_FORM, RegistrationForm
from quire.storage.maintenance.deletions import MetadataBirths, MetadataDeletions
from quire.storage.maintenance.garbage import Deletions
from quire.storage.node import BookieNode
from quire.storage.serving.births import Bound, GivenIds
from quire.storage.serving.grpc_service import OpenDoor

OTHER: Final = ":"
"""In the id of a cluster: the part before it names another system than quire's."""


class LedgerSystem(Protocol):
    """Port: the system of its ledgers, as a bookie needs it."""

    store: MetadataStore
    """Where the bookie is registered."""
    form: RegistrationForm
    given: GivenIds
    deletions: Deletions

    def doors(self, node: BookieNode) -> Sequence[OpenDoor]:
        """Return the ports for the clients of the system, beside those for quire's clients."""
        ...

    def address(self, served: BookieAddress) -> BookieAddress:
        """Return the address that clients are told, once the doors are open."""
        ...


OpenSystem: TypeAlias = Callable[
    [MetadataStore, BookieCookie], AbstractAsyncContextManager[LedgerSystem]
]
"""Opens the system of a bookie, given the store of the bookie's own records."""


class OwnSystem:
    """Ledgers of quire. Implements `LedgerSystem`."""

    form: RegistrationForm = OWN_FORM

    def __init__(self, store: MetadataStore, cluster: str) -> None:
        self.store = store
        self.given: GivenIds = Bound(MetadataBirths(store, cluster))
        self.deletions: Deletions = MetadataDeletions(store, cluster)

    def doors(self, node: BookieNode) -> Sequence[OpenDoor]:
        """See `LedgerSystem.doors`."""
        return ()

    def address(self, served: BookieAddress) -> BookieAddress:
        """See `LedgerSystem.address`."""
        return served


@asynccontextmanager
async def own_system(store: MetadataStore, cookie: BookieCookie) -> AsyncIterator[LedgerSystem]:
    """Open quire's own system. Raises `ConfigurationError` for a bookie of another system."""
    system, separator, _ = cookie.cluster.partition(OTHER)
    if separator:
        raise ConfigurationError(
            f"bookie {cookie.bookie} keeps ledgers of {system}: serve it with the store that it "
            f"was formatted with, as in --store 'zk://…/?ledgers={system}:/ledgers&write=true'"
        )
    yield OwnSystem(store, cookie.cluster)
