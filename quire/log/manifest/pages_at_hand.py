"""Pages of a log in the memory of a program, and the questions that need some of them.

Pages never change, so a decoded page need not be read again; `PagesAtHand` keeps some of the
last ones. A question to a manifest raises `PagesNeededError` when it needs a page that is not at
hand: `ask` fetches it and asks again. `Walk` yields the segments of a log of any length while it
holds one page of each level.

A page may be gone because the manifest is out of date: `MissingPageError`. Its caller reads the
manifest again, as for a ledger that is gone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import Final, TypeVar

from quire.entry import LedgerId
from quire.errors import MissingPageError, NoSuchNodeError
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.page import NAME_BITS, Page, Reference, Summary, decode_page, reference_to
from quire.log.manifest.page_tree import PagesNeededError, Place, below
from quire.log.manifest.segment import Segment
from quire.metastore.layout import page_path
from quire.metastore.store import MetadataStore

T = TypeVar("T")

PAGES_MAX: Final = 64
"""Pages that a program remembers of a log: some 40 KB each. A question needs a few at a time."""

AT_ONCE: Final = 16
"""Pages that are asked for at the same time."""


class PagesAtHand:
    """Some pages of one log. `pages_max` None: as many as are ever needed, for a short time."""

    __slots__ = ("_fresh", "_kept", "_pages_max", "_rng", "_store", "log_id")

    def __init__(
        self,
        store: MetadataStore,
        log_id: str,
        rng: Random | None,
        pages_max: int | None = None,
    ) -> None:
        self.log_id = log_id
        self._store = store
        self._rng = rng
        self._pages_max = pages_max
        # Made when they are needed: most logs have no pages, and a process may have many logs.
        self._kept: dict[str, Page] | None = None
        self._fresh: dict[str, bytes] | None = None

    @property
    def fresh(self) -> dict[str, bytes]:
        """Records of pages that were made here and are not written yet, by name."""
        if self._fresh is None:
            self._fresh = {}
        return self._fresh

    @property
    def _held(self) -> dict[str, Page]:
        """The pages. The one that was used last is the last."""
        if self._kept is None:
            self._kept = {}
        return self._kept

    def get(self, place: Place) -> Page | None:
        """See `Pages`."""
        name = place.reference.name
        found = self._held.pop(name, None)
        if found is not None:
            self._held[name] = found
        return found

    def add(self, page: Page, log_id: str, tiers: Sequence[str]) -> Reference:
        """See `Pages`. Every page gets a name of its own: the name of a page of a lost race
        may still be deleted.
        """
        assert self._rng is not None, "pages are made where they can be named"
        known = {each.name for each in page.references} | self._held.keys()
        name = ""
        while not name or name in known:
            name = f"{self._rng.getrandbits(NAME_BITS):0{NAME_BITS // 4}x}"
        self.fresh[name] = record = page.encode(log_id, tiers)
        self.hold(name, page)
        return reference_to(page, name, record)

    def hold(self, name: str, page: Page) -> None:
        """Remember a page."""
        self._held.pop(name, None)
        self._held[name] = page
        while self._pages_max is not None and len(self._held) > self._pages_max:
            del self._held[next(iter(self._held))]

    def page(self, name: str) -> Page:
        """Return a page that is at hand."""
        return self._held[name]

    def for_edit(self) -> PagesAtHand:
        """Return these pages for one attempt to edit the manifest: it may need any number."""
        found = PagesAtHand(self._store, self.log_id, self._rng)
        if self._kept:
            found._held.update(self._kept)
        return found

    def fresh_of(self, places: Iterable[Place]) -> dict[str, bytes]:
        """Return the pages, by name, that are to be written so that these can be named."""
        found: dict[str, bytes] = {}
        for place in places:
            name = place.reference.name
            if name in self.fresh:
                page = self._held[name]
                found.update(self.fresh_of(below(page)))
                found[name] = self.fresh[name]
        return found

    async def load(self, places: Sequence[Place], tiers: Sequence[str]) -> None:
        """Fetch pages. Raises `MissingPageError`, `CorruptRecordError`, and the store's errors."""
        for at in range(0, len(places), AT_ONCE):
            some = places[at : at + AT_ONCE]
            reads = [self.fetch(place, tiers) for place in some]
            pages = await asyncio.gather(*reads, return_exceptions=True)
            for place, page in zip(some, pages, strict=True):
                if isinstance(page, BaseException):
                    raise page
                self.hold(place.reference.name, page)

    async def fetch(self, place: Place, tiers: Sequence[str]) -> Page:
        """Return a page, from the store if it is not at hand. Raises as `load`."""
        found = self.get(place)
        if found is not None:
            return found
        level, reference = place
        path = page_path(self.log_id, reference.name)
        try:
            record = (await self._store.get(path)).value
        except NoSuchNodeError:
            raise MissingPageError(path, self.log_id) from None
        return decode_page(path, record, self.log_id, level, reference, tiers)

    async def remove(self, places: Sequence[Place]) -> None:
        """See `Pages`."""
        for place in places:
            with suppress(NoSuchNodeError):
                await self._store.delete(page_path(self.log_id, place.reference.name))


async def ask(manifest: LogManifest, question: Callable[[], T]) -> T:
    """Return the answer to a question to a manifest, fetching the pages that it needs.

    The question is asked again for every page. Raises as `PagesAtHand.load`.
    """
    while True:
        try:
            return question()
        except PagesNeededError as needed:
            await manifest.pages.load(needed.places, manifest.tiers)


async def segment_from(manifest: LogManifest, number: int) -> Segment | None:
    """Return the first segment with this number or a higher one. Raises as `ask`."""
    return await ask(manifest, lambda: manifest.segment_from(number))


async def lists(manifest: LogManifest, ledger: LedgerId) -> bool:
    """Return whether a ledger is one of the log's segments. Raises as `ask`."""
    return await ask(manifest, lambda: manifest.lists(ledger))


class Walk:
    """The segments of a log in order, or from the youngest on, one after the other.

    It holds one page of each level, and needs no closing. A page that `skips` says yes to is left
    out with all below it: it is asked of each page in order, once the segments before have come.
    Segments that `wants` says no to are left out as well.

    Iteration raises as `PagesAtHand.fetch`.
    """

    def __init__(
        self,
        manifest: LogManifest,
        first: int = 0,
        *,
        skips: Callable[[Summary], bool] = lambda _: False,
        wants: Callable[[Segment], bool] = lambda _: True,
        is_backward: bool = False,
    ) -> None:
        self._manifest = manifest
        self._first = max(first, manifest.first_number)
        self._skips = skips
        self._wants = wants
        self._step = -1 if is_backward else 1
        self._places = deque(manifest.places[:: self._step])
        self._segments: deque[Segment] = deque()
        self._rows: tuple[Segment, ...] = manifest.rows
        if is_backward:
            self._take_rows()

    def __aiter__(self) -> Walk:
        return self

    async def __anext__(self) -> Segment:
        while True:
            while self._segments:
                segment = self._segments.popleft()
                if segment.number >= self._first and self._wants(segment):
                    return segment
            if self._places:
                await self._enter(self._places[0])
            elif self._rows:
                self._take_rows()
            else:
                raise StopAsyncIteration

    async def _enter(self, place: Place) -> None:
        of = place.reference.of
        if of.last < self._first or self._skips(of):
            self._places.popleft()
            return
        page = await self._manifest.pages.fetch(place, self._manifest.tiers)
        self._places.popleft()
        self._places.extendleft(reversed(below(page)[:: self._step]))
        self._segments.extend(page.segments[:: self._step])

    def _take_rows(self) -> None:
        self._segments.extend(self._rows[:: self._step])
        self._rows = ()
