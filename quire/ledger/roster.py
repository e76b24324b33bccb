"""The registered bookies and their addresses: the client's view.

The roster follows the registrations by watches and keeps one link to each bookie that a caller
asked for. A bookie's id is the identity of its data, so a bookie that comes back at another address
is the same bookie: its link is replaced. A bookie that is no longer registered keeps its last
address: it may be cut off from the metadata store only, and reads and fences should still try it.

The view lags the store; nothing here decides whether a bookie is alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, Protocol

from quire.aio.backoff import Backoff
from quire.aio.retry import retry
from quire.aio.tasks import Tasks
from quire.bookie import QUIRE, QUIRE_TLS, Bookie, BookieAddress
from quire.entry import BookieId
from quire.errors import (
    BookieUnavailableError,
    CorruptRecordError,
    HandleClosedError,
    QuireError,
)
from quire.labels import NOWHERE, Labels
from quire.ledger.domains import Candidate
from quire.ledger.metadata import Fragment
from quire.ledger.registrations import Registrations, StoredRegistrations
from quire.metastore.store import MetadataStore

BACKOFF: Final = Backoff(first=0.1, last=5.0)
"""Pauses between attempts to follow a store that cannot be reached."""


class LinkedBookie(Bookie, Protocol):
    """A bookie reached over a link that holds resources."""

    async def close(self) -> None:
        """Release the link; calls under way end with `BookieUnavailableError`."""
        ...


class Bookies(Protocol):
    """What ledger code needs of a roster."""

    def writable(self) -> list[BookieId]:
        """Return the bookies that take new entries, sorted."""
        ...

    def candidates(self) -> list[Candidate]:
        """Return the same with their places, for an ensemble."""
        ...

    def labels(self, bookie: BookieId) -> Labels:
        """Return where a bookie is; no labels when it was never seen."""
        ...

    def places(self) -> list[Labels]:
        """Return where the bookies are that were ever seen."""
        ...

    def bookie(self, bookie: BookieId) -> Bookie:
        """Return a bookie to call now. Raises `BookieUnavailableError` when it was never seen."""
        ...


@dataclass(slots=True)
class _Link:
    address: BookieAddress
    bookie: LinkedBookie


@asynccontextmanager
async def open_roster(
    store: MetadataStore, connect: Callable[[BookieAddress], LinkedBookie]
) -> AsyncIterator[BookieRoster]:
    """Know the registered bookies of a cluster while the block runs. Raises the store's errors."""
    roster = BookieRoster(store, connect)
    try:
        await roster.start()
        yield roster
    finally:
        await roster.close()


class BookieRoster:
    """The registered bookies; `start` it before use and `close` it after.

    `connect` makes a link to an address without waiting, and `speaks` names the protocols that it
    has links for. A bookie of another protocol is known, and takes no entries from here.
    `registrations` finds the registered bookies in the store.
    """

    def __init__(
        self,
        store: MetadataStore,
        connect: Callable[[BookieAddress], LinkedBookie],
        speaks: Collection[str] = (QUIRE, QUIRE_TLS),
        registrations: Callable[[MetadataStore], Registrations] = StoredRegistrations,
    ) -> None:
        self._registrations = registrations(store)
        self._connect = connect
        self._speaks = frozenset(speaks)
        self._registered: dict[BookieId, BookieAddress] = {}
        self._last_seen: dict[BookieId, BookieAddress] = {}
        self._links: dict[BookieId, _Link] = {}
        self._watched: set[BookieId] = set()
        self._watches = Tasks()
        self._retiring = Tasks()
        self._closed = False

    async def start(self) -> None:
        """Read the registrations and begin to follow them. Raises the store's errors."""
        await self.refresh()
        self._watches.start(self._follow(), "bookie roster")

    async def refresh(self) -> None:
        """Read the registrations now, for a caller that cannot use the bookies known so far.

        Raises the store's errors; cancelling keeps the records read.
        """
        names = await self._registrations.names()
        for bookie in names:
            await self._read(bookie)
        # A bookie that is not named may have come since: its watch would not report it once more.
        for bookie in sorted(self._registered.keys() - set(names)):
            await self._read(bookie)

    async def close(self) -> None:
        """Stop following and close all links. Harmless when called again."""
        self._closed = True
        self._watches.cancel()
        links = [link.bookie.close() for link in self._links.values()]
        self._links.clear()
        await asyncio.gather(*links, return_exceptions=True)
        await self._watches.join()
        await self._retiring.join()

    def writable(self) -> list[BookieId]:
        """Return the registered bookies that take new entries, sorted."""
        return [each.bookie for each in self.known() if self._takes_entries(each)]

    def candidates(self) -> list[Candidate]:
        """Return the same with their places, for an ensemble."""
        return [
            Candidate(each.bookie, each.labels, each.room)
            for each in self.known()
            if self._takes_entries(each)
        ]

    def _takes_entries(self, address: BookieAddress) -> bool:
        return address.writable and address.protocol in self._speaks

    def labels(self, bookie: BookieId) -> Labels:
        """Return where a bookie is; no labels when it was never seen."""
        seen = self._last_seen.get(bookie)
        return NOWHERE if seen is None else seen.labels

    def places(self) -> list[Labels]:
        """Return where the bookies are that were ever seen."""
        return [self.labels(bookie) for bookie in sorted(self._last_seen)]

    def known(self) -> list[BookieAddress]:
        """Return the registered bookies, sorted by id."""
        return [self._registered[bookie] for bookie in sorted(self._registered)]

    def bookie(self, bookie: BookieId) -> Bookie:
        """Return the link to a bookie at its newest address, made when first asked for.

        Ask again for each call: a bookie may move. Raises `BookieUnavailableError` when it
        was never registered since the roster started, `HandleClosedError` after `close`.
        """
        if self._closed:
            raise HandleClosedError("bookie roster")
        address = self._last_seen.get(bookie)
        if address is None:
            raise BookieUnavailableError(bookie, "it is not registered")
        link = self._links.get(bookie)
        if link is None or not (link.address is address or _is_same_place(link.address, address)):
            if link is not None:
                self._retire(link)
            link = self._links[bookie] = _Link(address, self._connect(address))
        return link.bookie

    def _retire(self, link: _Link) -> None:
        self._retiring.start(_close(link.bookie), "retired bookie link")

    async def _follow(self) -> None:
        """Give every bookie that ever appears a watch of its own."""

        async def look() -> None:
            names = await self._registrations.names()
            for bookie in sorted({*names, *self._registered}):
                if bookie not in self._watched:
                    self._watched.add(bookie)
                    self._watches.start(self._watch(bookie), f"watch of bookie {bookie}")
            await self._registrations.wait_names(names)

        await _repeat(look)

    async def _watch(self, bookie: BookieId) -> None:
        """Follow one registration permanently: it may vanish and come back between two looks."""

        async def look() -> None:
            version = await self._read(bookie)
            await self._registrations.wait(bookie, version)

        await _repeat(look)

    async def _read(self, bookie: BookieId) -> Hashable:
        """Take in one registration and return its version."""
        found = await self._registrations.read(bookie)
        if found.address is None:
            self._registered.pop(bookie, None)
            return found.version
        try:
            address = found.address()
        except CorruptRecordError:
            self._registered.pop(bookie, None)
        else:
            self._registered[bookie] = self._last_seen[bookie] = address
        return found.version


def seated(fragment: Fragment, bookies: Bookies) -> list[Candidate]:
    """Return the bookies of a fragment by position, with their places.

    Labels that the fragment froze count, whatever the bookies were labelled since.
    """
    labels = fragment.labels or tuple(map(bookies.labels, fragment.bookies))
    return [Candidate(*each) for each in zip(fragment.bookies, labels, strict=True)]


async def _repeat(look: Callable[[], Awaitable[None]]) -> None:
    """Look again and again until the store is closed, whatever else happens to it."""
    with suppress(HandleClosedError):
        while True:
            await retry(look, on=QuireError, unless=_is_closed, backoff=BACKOFF)


def _is_closed(error: Exception) -> bool:
    return isinstance(error, HandleClosedError)


def _is_same_place(one: BookieAddress, other: BookieAddress) -> bool:
    def place(each: BookieAddress) -> tuple[object, ...]:
        return each.address, each.runs, each.says_hello, each.protocol, each.tls

    return place(one) == place(other)


async def _close(bookie: LinkedBookie) -> None:
    try:
        await bookie.close()
    except QuireError:
        return
