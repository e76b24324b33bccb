"""Watching the pages of manifests, and reading manifests whole.

C18  a page with segments of a log is there, and is what it was when it was created; no name is
     given to a second page. A doomed page goes when all is deleted that it names: then it may be
     doomed a second time, with the page above it

The other watches see a manifest as if it had no pages: all segments are rows, and what doomed pages
name is doomed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from quire.errors import CorruptRecordError
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.page import Page, decode_page
from quire.log.manifest.page_tree import NO_BORDER, Place, below
from quire.log.manifest.segment import Segment
from quire.metastore.layout import PAGES, page_path
from tests.sim.history import Violation

RULE = "C18 named pages are there and never change"


class PageWatch:
    """See the module."""

    def __init__(self, report: Callable[[Violation], None]) -> None:
        self._report = report
        self._records: dict[str, bytes] = {}
        self._ever: set[str] = set()
        self._named: dict[str, frozenset[str]] = {}
        """By the path of a manifest: the pages that it names."""
        self._flats: dict[tuple[object, ...], LogManifest] = {}
        self.made = 0

    def changed(self, path: str, value: bytes | None) -> None:
        """A record of the tree is another one."""
        if not path.startswith(PAGES + "/") or path.count("/") < 5:
            return
        if value is None:
            self._records.pop(path, None)
            naming = [each for each in sorted(self._named) if path in self._named[each]]
            if naming:
                self._tell(f"{path} is deleted, and {naming[0]} names it")
        elif path in self._ever:
            self._tell(f"{path} is written a second time")
        else:
            self._records[path] = value
            self._ever.add(path)
            self.made += 1

    def read(self, path: str, value: bytes) -> LogManifest:
        """Return the manifest of a record as one without pages.

        Raises `CorruptRecordError`, and `Violation` when a page that it names is not there.
        """
        manifest = LogManifest.decode(path, value)
        if not manifest.is_paged:
            self._named.pop(path, None)
            return manifest
        self._flats[_key(manifest)] = flat = self._flatten(path, manifest)
        return flat

    def flat(self, manifest: LogManifest) -> LogManifest:
        """Return a manifest that was written as one without pages."""
        return self._flats[_key(manifest)] if manifest.levels else manifest

    def _flatten(self, path: str, manifest: LogManifest) -> LogManifest:
        named: set[str] = set()
        rows = self._rows(manifest, manifest.places, named)
        first = manifest.first_number
        segments = (*(each for each in rows if each.number >= first), *manifest.rows)
        self._named[path] = frozenset(named)
        doomed = [*manifest.doomed]
        files = [*manifest.doomed_files]
        for segment in self._left(manifest, manifest.doomed_pages):
            doomed += [segment.ledger] if segment.is_hot else []
            files += [segment.cold.uri] if segment.cold else []
        flat = replace(manifest, rows=tuple(segments), levels=(), border=NO_BORDER)
        unique = tuple(dict.fromkeys(doomed))
        return replace(flat, doomed=unique, doomed_files=tuple(files), doomed_pages=())

    def named(self) -> set[str]:
        """Return the paths of all pages that manifests name now."""
        return set().union(*self._named.values())

    def forget(self, path: str) -> None:
        """A manifest is gone."""
        self._named.pop(path, None)

    def _rows(
        self, manifest: LogManifest, places: Iterable[Place], named: set[str]
    ) -> Iterator[Segment]:
        for place in places:
            if place.reference.of.last < manifest.first_number:
                continue
            path = self._path(manifest, place)
            named.add(path)
            if path not in self._records:
                raise Violation(RULE, f"log {manifest.name} names {path}, which is not there")
            page = self._decode(manifest, place)
            yield from self._rows(manifest, below(page), named)
            yield from page.segments

    def _left(self, manifest: LogManifest, places: Iterable[Place]) -> Iterator[Segment]:
        """What doomed pages name. A page below one may be gone: then all in it is."""
        for place in places:
            if self._path(manifest, place) in self._records:
                page = self._decode(manifest, place)
                yield from self._left(manifest, below(page))
                yield from page.segments

    def _decode(self, manifest: LogManifest, place: Place) -> Page:
        path = self._path(manifest, place)
        level, reference = place
        try:
            return decode_page(
                path, self._records[path], manifest.log_id, level, reference, manifest.tiers
            )
        except CorruptRecordError as error:
            raise Violation(RULE, str(error)) from None

    def _path(self, manifest: LogManifest, place: Place) -> str:
        return page_path(manifest.log_id, place.reference.name)

    def _tell(self, text: str) -> None:
        self._report(Violation(RULE, text))


def _key(manifest: LogManifest) -> tuple[object, ...]:
    """What says which segments a manifest has."""
    return manifest.log_id, manifest.levels, manifest.border, manifest.rows
