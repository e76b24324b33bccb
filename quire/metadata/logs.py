"""Reading a log for a backup: its manifest with the pages and the jobs that belong to it.

Pages never change, so they are saved as they are met. A jobs record belongs to the head if the head
has the same version before and after the jobs were read.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from quire.entry import LedgerId
from quire.errors import ConflictError, IntegrityError, MissingPageError, NoSuchNodeError
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.page import decode_page
from quire.log.manifest.page_tree import Place, below
from quire.log.manifest.segment import Segment
from quire.metadata.archive import ArchiveWriter, Saved
from quire.metastore.layout import log_jobs_path, page_path
from quire.metastore.store import MetadataStore

ATTEMPTS_MAX: Final = 20
"""How often records that change all the time are read again."""


class Naming(NamedTuple):
    """Records that belong together, and the ledgers that they name."""

    records: tuple[Saved, ...]
    ledgers: frozenset[LedgerId]


class LogArchiver:
    """Reads logs, and saves their pages."""

    def __init__(self, store: MetadataStore, archive: ArchiveWriter) -> None:
        self._store = store
        self._archive = archive
        self._saved: dict[str, frozenset[LedgerId]] = {}
        """The ledgers of each page that was saved, by path; with the pages below it."""

    async def read(self, path: str) -> Naming | None:
        """Return the manifest at a path, and its jobs, None if it is gone. A damaged record, or one
        with a lost page, is returned as it is.

        Raises `ConflictError` when it changes all the time, and the store's errors.
        """
        missing: int | None = None
        for _ in range(ATTEMPTS_MAX):
            try:
                found = await self._store.get(path)
                head = Saved(path, found.value)
                try:
                    manifest = LogManifest.decode(path, found.value)
                    ledgers = _ledgers(manifest.rows) | await self._save_pages(manifest)
                except MissingPageError:
                    if missing == found.version:
                        return Naming((head,), frozenset())
                    missing = found.version
                    continue
                except IntegrityError:
                    return Naming((head,), frozenset())
                jobs = await self._jobs(manifest.log_id) if manifest.is_paged else ()
                if not manifest.is_paged or (await self._store.get(path)).version == found.version:
                    return Naming((*jobs, head), ledgers)
            except NoSuchNodeError:
                return None
        raise ConflictError(f"{path} changed at every attempt to read it: try again")

    async def _jobs(self, log_id: str) -> tuple[Saved, ...]:
        path = log_jobs_path(log_id)
        try:
            return (Saved(path, (await self._store.get(path)).value),)
        except NoSuchNodeError:
            return ()

    async def _save_pages(self, manifest: LogManifest) -> frozenset[LedgerId]:
        """Save the pages of a manifest that were not saved before; return the ledgers in them."""
        found = [await self._save(manifest, each) for each in manifest.places]
        for place in manifest.doomed_pages:
            try:
                await self._save(manifest, place)
            except MissingPageError:
                continue  # it is being deleted
        return frozenset().union(*found)

    async def _save(self, manifest: LogManifest, place: Place) -> frozenset[LedgerId]:
        path = page_path(manifest.log_id, place.reference.name)
        if path not in self._saved:
            try:
                value = (await self._store.get(path)).value
            except NoSuchNodeError:
                raise MissingPageError(path, manifest.log_id) from None
            level, reference = place
            page = decode_page(path, value, manifest.log_id, level, reference, manifest.tiers)
            lower = [await self._save(manifest, each) for each in below(page)]
            self._archive.add(Saved(path, value))
            self._saved[path] = _ledgers(page.segments).union(*lower)
        return self._saved[path]


def _ledgers(segments: tuple[Segment, ...]) -> frozenset[LedgerId]:
    return frozenset(each.ledger for each in segments if each.cold is None)
