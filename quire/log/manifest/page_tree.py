"""The levels of a paged manifest: how sealed segments move from the head into pages, and back out.

The head has the youngest sealed segments as rows. When there are 2F of them, the F oldest become a
page of level 0, to which the head keeps a reference; when there are 2F references of a level, the F
oldest become a page of the next level. So the head has fewer than 2F rows and fewer than 2F
references of each level, however long the log is, and one change in F makes a page.

    oldest  …  levels[2]  levels[1]  levels[0]  rows  youngest

A `Place` is a reference with its level. Nothing is read here: a question that needs a page that is
not at hand raises `PagesNeededError`. It is asked again when the page was fetched
(pages_at_hand.py).

Pure: no clock and no I/O. Source: docs/decisions/0029-a-manifest-in-pages.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Final, NamedTuple, Protocol, TypeAlias

from quire.log.manifest.page import Page, Reference
from quire.log.manifest.segment import Segment

PAGE_ROWS: Final = 64
"""F. A page of rows has 4 to 8 KB; the head has some 25 KB at a million segments."""

Levels: TypeAlias = tuple[tuple[Reference, ...], ...]


class Place(NamedTuple):
    """A page, and the level that it is of."""

    level: int
    reference: Reference


class PagesNeededError(Exception):
    """A question needs pages that are not at hand. The caller gets them, and asks again."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = tuple(places)
        names = ", ".join(each.reference.name for each in self.places)
        super().__init__(f"pages {names} are not at hand")


class Pages(Protocol):
    """The pages that a manifest is asked with."""

    def get(self, place: Place) -> Page | None:
        """Return a page, None when it is not at hand."""
        ...

    def add(self, page: Page, log_id: str, tiers: Sequence[str]) -> Reference:
        """Take in a page that is to be written with the manifest; return what names it."""
        ...

    async def load(self, places: Sequence[Place], tiers: Sequence[str]) -> None:
        """Fetch pages. Raises `MissingPageError`, `CorruptRecordError`, and the store's errors."""
        ...

    async def fetch(self, place: Place, tiers: Sequence[str]) -> Page:
        """Return a page, from the store if it is not at hand. Raises as `load`."""
        ...

    async def remove(self, places: Sequence[Place]) -> None:
        """Delete the records of pages; missing ones are skipped. Raises as the store."""
        ...


Add: TypeAlias = Callable[[Page], Reference]
"""Takes in a page of one log, as `Pages.add`."""


class NoPages:
    """The pages of a manifest that was not read from a store: none is at hand."""

    def get(self, place: Place) -> Page | None:
        """See `Pages`."""
        return None

    def add(self, page: Page, log_id: str, tiers: Sequence[str]) -> Reference:
        """See `Pages`."""
        raise AssertionError("a manifest without a store makes no pages")

    async def load(self, places: Sequence[Place], tiers: Sequence[str]) -> None:
        """See `Pages`."""
        raise AssertionError("a manifest without a store finds no pages")

    async def fetch(self, place: Place, tiers: Sequence[str]) -> Page:
        """See `Pages`."""
        raise AssertionError("a manifest without a store finds no pages")

    async def remove(self, places: Sequence[Place]) -> None:
        """See `Pages`."""
        raise AssertionError("a manifest without a store deletes no pages")


NO_PAGES: Final = NoPages()


class Border(NamedTuple):
    """Where a log begins inside its oldest page: rows of pages with lower numbers are trimmed."""

    first: int = 0
    """Number of the first segment that is left."""
    bytes: int = 0
    """Bytes of the trimmed segments in the first page that the head names."""
    segments: int = 0
    """How many they are."""


NO_BORDER: Final = Border()


def need(pages: Pages, place: Place) -> Page:
    """Return a page. Raises `PagesNeededError`."""
    page = pages.get(place)
    if page is None:
        raise PagesNeededError([place])
    return page


def places_of(levels: Levels) -> list[Place]:
    """Return the pages that a head names, the oldest first."""
    return [
        Place(level, each) for level in range(len(levels) - 1, -1, -1) for each in levels[level]
    ]


def below(page: Page) -> list[Place]:
    """Return the pages that an index page names, in order; none of a page with rows."""
    return [Place(page.level - 1, each) for each in page.references]


def pack(rows: Sequence[Segment], levels: Levels, add: Add) -> tuple[tuple[Segment, ...], Levels]:
    """Move old sealed rows into pages, and old references into index pages, while there are 2F."""
    count = PAGE_ROWS
    sealed = sum(1 for _ in takewhile(lambda each: each.end is not None, rows))
    rows = tuple(rows)
    if sealed < 2 * count:
        return rows, levels
    changed = [list(each) for each in levels]
    while sealed >= 2 * count:
        _at(changed, 0).append(add(Page(0, rows[:count])))
        rows, sealed = rows[count:], sealed - count
        for level in range(len(changed)):
            if len(changed[level]) >= 2 * count:
                page = Page(level + 1, (), tuple(changed[level][:count]))
                del changed[level][:count]
                _at(changed, level + 1).append(add(page))
    return rows, trimmed_levels(changed)


def _at(levels: list[list[Reference]], level: int) -> list[Reference]:
    if level == len(levels):
        levels.append([])
    return levels[level]


def trimmed_levels(levels: Sequence[Sequence[Reference]]) -> Levels:
    """Return levels without the empty ones above the highest that is in use."""
    kept = [tuple(each) for each in levels]
    while kept and not kept[-1]:
        del kept[-1]
    return tuple(kept)


def row_from(places: Sequence[Place], number: int, pages: Pages) -> Segment | None:
    """Return the first segment in pages with this number or a higher one.

    Raises `PagesNeededError`.
    """
    at = bisect_left(places, number, key=lambda each: each.reference.of.last)
    if at == len(places):
        return None
    page = need(pages, places[at])
    if page.level:
        return row_from(below(page), number, pages)
    return next(each for each in page.segments if each.number >= number)


def row_before(places: Sequence[Place], number: int, pages: Pages) -> Segment | None:
    """Return the last segment in pages with a lower number. Raises `PagesNeededError`."""
    at = bisect_left(places, number, key=lambda each: each.reference.of.first) - 1
    if at < 0:
        return None
    page = need(pages, places[at])
    if page.level:
        return row_before(below(page), number, pages)
    return next(each for each in reversed(page.segments) if each.number < number)


def all_rows(places: Sequence[Place], first: int, pages: Pages) -> Iterator[Segment]:
    """Yield the segments in pages from a number on. Raises `PagesNeededError`, naming all pages of
    one level that are missing.
    """
    left = [each for each in places if each.reference.of.last >= first]
    missing = [each for each in left if pages.get(each) is None]
    if missing:
        raise PagesNeededError(missing)
    found = [need(pages, each) for each in left]
    lower = [each for page in found for each in below(page) if each.reference.of.last >= first]
    absent = [each for each in lower if pages.get(each) is None]
    if absent:
        raise PagesNeededError(absent)
    for page in found:
        if page.level:
            yield from all_rows(below(page), first, pages)
        else:
            yield from (each for each in page.segments if each.number >= first)


def rows_of_ledger(
    places: Sequence[Place], ledger: int, first: int, pages: Pages
) -> Iterator[Segment]:
    """Yield the segments in pages, from a number on, that have a ledger.

    Raises `PagesNeededError`.
    """
    for place in places:
        of = place.reference.of
        if of.last < first or not of.min_ledger <= ledger <= of.max_ledger:
            continue
        page = need(pages, place)
        yield from rows_of_ledger(below(page), ledger, first, pages)
        for each in page.segments:
            if each.ledger == ledger and each.number >= first:
                yield each


class Trimmed(NamedTuple):
    """What leaves pages when a log begins with another segment."""

    doomed: tuple[Place, ...]
    """Pages without a segment that is left."""
    rows: tuple[Segment, ...]
    """Trimmed segments of a page with others that are left."""
    bytes: int
    """Bytes of all that is trimmed in the first page that stays."""
    segments: int


def trim_below(places: Sequence[Place], before: int, first: int, pages: Pages) -> Trimmed:
    """Return what leaves when a log that began with segment `before` begins with segment `first`.

    Raises `PagesNeededError` for the page that has it.
    """
    doomed: list[Place] = []
    rows: list[Segment] = []
    size = count = 0
    for place in places:
        of = place.reference.of
        if of.first >= first:
            break
        if of.last < first:
            if of.last >= before:
                doomed.append(place)
            size, count = size + of.bytes, count + of.segments
            continue
        page = need(pages, place)
        inner = trim_below(below(page), before, first, pages)
        doomed += inner.doomed
        rows += inner.rows
        gone = [each for each in page.segments if each.number < first]
        rows += [each for each in gone if each.number >= before]
        size += inner.bytes + sum(each.bytes or 0 for each in gone)
        count += inner.segments + len(gone)
    return Trimmed(tuple(doomed), tuple(rows), size, count)


def mapped(
    level: int,
    references: Sequence[Reference],
    change: Callable[[Segment], Segment],
    is_wanted: Callable[[Reference], bool],
    pages: Pages,
    add: Add,
) -> tuple[Reference, ...]:
    """Return references with segments changed: pages are copied with what names them.

    Only pages that are wanted are looked into. Raises `PagesNeededError`.
    """
    found = []
    for each in references:
        if not is_wanted(each):
            found.append(each)
            continue
        page = need(pages, Place(level, each))
        segments = tuple(map(change, page.segments))
        lower: tuple[Reference, ...] = ()
        if level:
            lower = mapped(level - 1, page.references, change, is_wanted, pages, add)
        if (segments, lower) == (page.segments, page.references):
            found.append(each)
        else:
            new = add(Page(level, segments, lower, page.unknown))
            found.append(new._replace(unknown=each.unknown))
    return tuple(found)
