"""Sweeping pages that no manifest names: leftovers of crashes, lost races and copies of pages.

An editor may write pages before the head that names them, so a page that is not named now may be
named a moment later. Therefore pages are listed first and the head is read second, and each
deletion is one transaction with a head that has not changed: an editor that has written a page
either has changed the head before, or finds its own change refused, and makes new pages.

Pages of a log without a head stay as long as it has a ledger: it may be under way of being rebuilt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from typing import Final

from quire.errors import ConflictError, MissingPageError, NoSuchLogError, NoSuchNodeError
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.page_tree import Place, below
from quire.log.manifest.record import ManifestRecord
from quire.metastore.changes import Delete
from quire.metastore.layout import PAGES, page_path, pages_path, unquote_name
from quire.metastore.store import MetadataStore

SWEEP_AT_ONCE: Final = 40
"""Pages that are deleted with one change of the head: 10 KB, and one write of the head for all."""

SWEEP_SECONDS: Final = 24 * 3600.0
"""Time between two sweeps of a leader: crashes and offloads leave a few pages."""

SWEEPS_MAX: Final = 5
"""Looks at a head that changes while it is swept. The next sweep finds the rest."""


class DailySweep:
    """Sweeps the pages of one log once a day, for its leader."""

    __slots__ = ("_next_at", "_record")

    def __init__(self, record: ManifestRecord) -> None:
        self._record = record
        self._next_at = asyncio.get_running_loop().time() + SWEEP_SECONDS

    async def run(self) -> None:
        """Sweep if it is time to. Raises as `sweep_pages`."""
        now = asyncio.get_running_loop().time()
        if now >= self._next_at:
            self._next_at = now + SWEEP_SECONDS
            await sweep_pages(self._record.store, self._record)


async def sweep_pages(store: MetadataStore, record: ManifestRecord) -> int:
    """Delete the pages of a log that its manifest does not name; returns their number.

    Raises `NoSuchLogError`, `CorruptRecordError`, and the store's errors. May be repeated.
    """
    manifest, _ = await record.read()
    log_id = manifest.log_id
    listed = await list_pages(store, log_id)
    deleted = 0
    for _ in range(SWEEPS_MAX):
        manifest, version = await record.read()
        if manifest.log_id != log_id:
            raise NoSuchLogError(record.name)
        try:
            named = await _named(manifest)
        except MissingPageError:
            continue
        orphans = [each for each in listed if each not in named][:SWEEP_AT_ONCE]
        while orphans:
            paths = [page_path(log_id, each) for each in orphans]
            try:
                await store.commit([*record.unchanged(manifest, version), *map(Delete, paths)])
            except NoSuchNodeError:
                listed = await list_pages(store, log_id)
                break
            except ConflictError:
                break
            deleted += len(orphans)
            listed = [each for each in listed if each not in orphans]
            manifest, version = await record.read()
            if not _same_pages(manifest, named):
                break
            orphans = [each for each in listed if each not in named][:SWEEP_AT_ONCE]
        else:
            break
    return deleted


def _same_pages(manifest: LogManifest, named: frozenset[str]) -> bool:
    """Whether a head names only known pages at its top."""
    tops = [*manifest.places, *manifest.doomed_pages]
    return all(each.reference.name in named for each in tops)


async def sweep_forsaken(
    store: MetadataStore,
    heads: Callable[[], Awaitable[Collection[str]]],
    labels: Callable[[], Awaitable[Collection[str]]],
) -> None:
    """Delete the pages of logs that have neither a head nor a ledger: a deletion that met an editor
    may leave some. A log that could be rebuilt under its identity has a ledger.

    `heads` and `labels` return the identities of logs that have a manifest, or a ledger: they are
    asked after the pages were listed.
    """
    listed = [unquote_name(each) for each in await store.children(PAGES)]
    if not listed:
        return
    left = set(listed).difference(await heads())
    left = left.difference(await labels()) if left else left
    for log_id in sorted(left.difference(await heads())):
        await delete_all_pages(store, log_id)


async def delete_all_pages(store: MetadataStore, log_id: str) -> None:
    """Delete all pages of a log that is going, and the records above them."""
    for name in await list_pages(store, log_id):
        with suppress(NoSuchNodeError):
            await store.delete(page_path(log_id, name))
    above = pages_path(log_id)
    for path in [*(f"{above}/{each}" for each in await store.children(above)), above]:
        with suppress(NoSuchNodeError, ConflictError):
            await store.delete(path)


async def list_pages(store: MetadataStore, log_id: str) -> list[str]:
    """Return the names of the pages of a log."""
    above = pages_path(log_id)
    return [
        shard + rest
        for shard in await store.children(above)
        for rest in await store.children(f"{above}/{shard}")
    ]


async def _named(manifest: LogManifest) -> frozenset[str]:
    """Return the pages that a manifest names, through other pages too.

    Raises `MissingPageError` for one of its segments. Some pages below a doomed page may be
    deleted already; the others are still to be emptied.
    """
    found = set(await _below(manifest, manifest.places))
    for place in manifest.doomed_pages:
        found.update(await _below_doomed(manifest, place))
    return frozenset(found)


async def _below(manifest: LogManifest, places: Iterable[Place]) -> list[str]:
    found = []
    for place in places:
        if place.reference.of.last < manifest.first_number:
            continue  # it is trimmed: doomed by itself, or deleted
        found.append(place.reference.name)
        if place.level:
            page = await manifest.pages.fetch(place, manifest.tiers)
            found += await _below(manifest, below(page))
    return found


async def _below_doomed(manifest: LogManifest, place: Place) -> list[str]:
    found = [place.reference.name]
    if place.level:
        with suppress(MissingPageError):
            page = await manifest.pages.fetch(place, manifest.tiers)
            for each in below(page):
                found += await _below_doomed(manifest, each)
    return found
