"""Manifests with small pages, and a plain list of segments beside them that says what is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar
from unittest.mock import patch

from quire.errors import MissingPageError
from quire.log.manifest import page_tree
from quire.log.manifest.manifest import LogManifest, SegmentEnd
from quire.log.manifest.page import Page, Reference, decode_page, reference_to
from quire.log.manifest.page_tree import PagesNeededError, Place
from quire.log.records.position import Position

T = TypeVar("T")

LOG_ID = "1" * 32


@contextmanager
def page_rows(count: int) -> Iterator[None]:
    """Have pages of so many rows."""
    with patch.object(page_tree, "PAGE_ROWS", count):
        yield


@dataclass
class Shelf:
    """All pages that were written, and those that a question may use so far."""

    rng: Random
    written: dict[str, bytes] = field(default_factory=dict)
    held: dict[str, Page] = field(default_factory=dict)
    loads: int = 0

    def get(self, place: Place) -> Page | None:
        return self.held.get(place.reference.name)

    def add(self, page: Page, log_id: str, tiers: Sequence[str]) -> Reference:
        name = f"{self.rng.getrandbits(64):016x}"
        self.written[name] = page.encode(log_id, tiers)
        return reference_to(page, name, self.written[name])

    async def load(self, places: Sequence[Place], tiers: Sequence[str]) -> None:
        for place in places:
            self.held[place.reference.name] = self._decode(place, tiers)
            self.loads += 1

    async def fetch(self, place: Place, tiers: Sequence[str]) -> Page:
        self.loads += 1
        if place.reference.name not in self.written:
            raise MissingPageError(place.reference.name, LOG_ID)
        return self._decode(place, tiers)

    async def remove(self, places: Sequence[Place]) -> None:
        for place in places:
            self.written.pop(place.reference.name, None)

    def _decode(self, place: Place, tiers: Sequence[str]) -> Page:
        level, reference = place
        data = self.written[reference.name]
        return decode_page(reference.name, data, LOG_ID, level, reference, tiers)

    def answer(self, manifest: LogManifest, question: Callable[[], T]) -> T:
        """Answer a question with as many pages as it needs, and forget them."""
        self.held.clear()
        while True:
            try:
                return question()
            except PagesNeededError as needed:
                for place in needed.places:
                    assert self.get(place) is None, "it asked for what it has"
                    self.held[place.reference.name] = self._decode(place, manifest.tiers)
                    self.loads += 1


class Pair:
    """A paged manifest, and one that does the same without pages."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.shelf = Shelf(self.rng)
        self.plain = LogManifest("a", LOG_ID, 0)
        self.paged = replace(self.plain, pages=self.shelf).paged()
        self._ledger = 0
        self._now = 0

    def edit(self, change: Callable[[LogManifest], LogManifest]) -> None:
        """Edit both, write the paged one and read it again, and hold one against the other."""
        self.plain = change(self.plain)
        after = self.shelf.answer(self.paged, lambda: change(self.paged)).paged()
        record = after.encode()
        self.paged = replace(LogManifest.decode("/a", record), pages=self.shelf)
        assert self.paged == replace(after, jobs=(), forgotten_jobs=())
        assert self.paged.encode() == record

    def take_over(self) -> None:
        self._ledger += self.rng.randint(1, 3)
        ends = {each.number: self.an_end() for each in self.plain.open_segments}
        self.edit(lambda now: now.take_over(ends, self._ledger, self._now))

    def roll(self) -> None:
        self._ledger += self.rng.randint(1, 3)
        number = self.plain.open_segments[0].number if self.plain.open_segments else None
        if number is None or len(self.plain.open_segments) > 1:
            return
        end = self.an_end()
        self.edit(lambda now: now.append_segment(self._ledger, self._now).seal_segment(number, end))

    def ingest(self) -> None:
        parts = []
        for _ in range(self.rng.randint(1, 12)):
            self._ledger += 1
            parts.append((self._ledger, self.an_end(1)._replace(last_txid=-1)))
        ends = {each.number: self.an_end() for each in self.plain.open_segments}
        self.edit(lambda now: now.ingest(ends, parts, None, self._now))

    def trim(self) -> None:
        last = self.plain.next_segment
        first = self.plain.first_number
        number = self.rng.randint(first, min(last, first + self.rng.choice([1, 3, 20, 500])))
        place = Position(number, self.rng.randint(0, 3), self.rng.randint(0, 2))
        place = min(place, Position(last, 0, 0))
        self.edit(lambda now: now.trim(place))

    def an_end(self, least: int = 0) -> SegmentEnd:
        records = self.rng.choice([least, 1, 2, 5])
        self._now += self.rng.choice([0, 1, 40_000, 100_000])
        time = max(0, self._now - self.rng.choice([0, 0, 0, 200_000]))
        if not records:
            return SegmentEnd(-1, 0, 0, 0, 0)
        return SegmentEnd(records - 1, 1, records, 10 * records, time, self._txid())

    def _txid(self) -> int:
        return max(self.plain.last_txid, self.rng.choice([-1, self._now]))
