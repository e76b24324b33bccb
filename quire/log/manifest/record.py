"""The manifest in the metadata store: read it, watch it, change it by compare-and-set.

An edit is a function from the manifest as it is now (None if it does not exist) to the next.
It is applied to whatever was read, again after every conflict, and again after an unknown outcome;
so it has to recognise its own work (return its argument) and to refuse by raising. This is
the only place that writes a manifest, which is why an unknown outcome is settled in one place.

Pages are written with the head that names them, in one transaction, or before it where they do not
fit. A lost attempt's pages are never used again: the next attempt has new names. A sweep
deletes the old ones (maintenance/page_sweep.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final, TypeAlias, TypeVar

from quire.errors import (
    ConflictError,
    LevelNeededError,
    MissingPageError,
    NoSuchLogError,
    NoSuchNodeError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
)
from quire.log.manifest import capacity
from quire.log.manifest.jobs_record import read_jobs
from quire.log.manifest.manifest import JobsNeededError, LogManifest
from quire.log.manifest.page_tree import PagesNeededError
from quire.log.manifest.pages_at_hand import PAGES_MAX, PagesAtHand, ask
from quire.metastore import levels
from quire.metastore.changes import Absent, Change, Create, Delete, Put
from quire.metastore.cluster import Level, adopted_incarnation, epoch_floor
from quire.metastore.layout import VALUE_BYTES_MAX, log_jobs_path, log_path, page_path
from quire.metastore.store import MetadataStore

EDIT_ATTEMPTS_MAX: Final = 64
"""Each lost attempt is another process's success, so this many in a row are not an accident."""

TOGETHER_BYTES_MAX: Final = VALUE_BYTES_MAX // 4
"""New pages, in bytes, that are written in the transaction of their head: some 40. The head, the
jobs and the changes of a caller have the rest."""

T = TypeVar("T")

Edit: TypeAlias = Callable[[LogManifest | None], LogManifest]

Look: TypeAlias = Callable[[], Awaitable[None]]
"""What an edit has to know besides the manifest, looked up each time before it is applied."""


def once(edit: Edit, error: Exception) -> Edit:
    """Return an edit that raises an error instead of creating the record a second time.

    A process that creates a manifest with ledgers, hears nothing, and finds no manifest cannot
    know whether the creation failed, or another process deleted the log with its ledgers.
    """
    creations = 0

    def guarded(manifest: LogManifest | None) -> LogManifest:
        nonlocal creations
        after = edit(manifest)
        if manifest is None:
            creations += 1
            if creations > 1:
                raise error
        return after

    return guarded


class ManifestRecord:
    """One log's manifest in a store. Any number may exist for one log."""

    __slots__ = (
        *("_all", "_last", "_level", "_pages", "_rng"),
        *("name", "path", "store", "written"),
    )

    def __init__(
        self,
        store: MetadataStore,
        name: str,
        rng: Random | None = None,
        level: Level | None = None,
    ) -> None:
        """`rng` names pages: without it nothing is edited. `level` allows formats."""
        self.name = name
        self.path = log_path(name)
        self.store = store
        self._rng = rng
        self._level = level or Level(store)
        self._pages: PagesAtHand | None = None
        self._all: PagesAtHand | None = None
        self._last: tuple[bytes, LogManifest] | None = None
        """The record that was read or written last, and its manifest: most are read again."""
        self.written: int | None = None
        """The version of the record that was written here last; None before."""

    def forget(self) -> None:
        """Keep no copy of the record: it will not be read again soon."""
        self._last = None

    async def check_attributes_allowed(self) -> None:
        """Raise `LevelNeededError` unless records may have keys, headers and event times."""
        if not await self._level.allows(levels.ATTRIBUTES_LEVEL):
            what = "a record with a key, headers or an event time"
            raise LevelNeededError(what, levels.ATTRIBUTES_LEVEL, self._level.seen)

    async def allows(self, level: int) -> bool:
        """Return whether the cluster's level allows a format. Raises the store's errors."""
        return await self._level.allows(level)

    async def epoch_floor(self) -> int:
        """Return the floor of a new epoch, whatever a restored store has lost.

        Raises `StoreWentBackError` before the store was adopted, and the store's errors.
        """
        return epoch_floor(await adopted_incarnation(self.store))

    async def find(self) -> tuple[LogManifest | None, int | None]:
        """Return manifest and version, both None when the log does not exist."""
        try:
            found = await self.store.get(self.path)
        except NoSuchNodeError:
            return None, None
        manifest = self._decode(found.value)
        if not manifest.is_paged and len(found.value) >= capacity.WARNING_BYTES:
            will_page = await self._level.allows(levels.PAGES_LEVEL)
            manifest = replace(manifest, will_page=will_page)
        return replace(manifest, ages=manifest.ages.seen(found.written_ms)), found.version

    def _decode(self, value: bytes) -> LogManifest:
        if self._last is None or self._last[0] != value:
            manifest = LogManifest.decode(self.path, value)
            if self._pages is None or self._pages.log_id != manifest.log_id:
                self._pages = PagesAtHand(self.store, manifest.log_id, self._rng, PAGES_MAX)
            self._last = value, replace(manifest, pages=self._pages)
        return self._last[1]

    async def read(self) -> tuple[LogManifest, int]:
        """Return manifest and version. Raises `NoSuchLogError`."""
        manifest, version = await self.find()
        if manifest is None or version is None:
            raise NoSuchLogError(self.name)
        return manifest, version

    async def read_whole(self) -> LogManifest:
        """Return the manifest with all its pages and jobs at hand, however many they are.

        Raises `NoSuchLogError`, `MissingPageError`, `CorruptRecordError`, and the store's errors.
        """
        missing: int | None = None
        while True:
            manifest, version = await self.read()
            try:
                return await self.whole(manifest)
            except MissingPageError:
                if version == missing:
                    raise
                missing = version

    async def whole(self, manifest: LogManifest) -> LogManifest:
        """Return a manifest with all its pages and jobs at hand. Raises as `ask`.

        A page that was fetched once by this object is not fetched again.
        """
        if self._all is None or self._all.log_id != manifest.log_id:
            self._all = PagesAtHand(self.store, manifest.log_id, self._rng)
        whole = replace(await self.with_jobs(manifest), pages=self._all)
        await ask(whole, lambda: whole.segments)
        return whole

    async def ask(self, manifest: LogManifest, question: Callable[[LogManifest], T]) -> T:
        """Return the answer to a question that may need pages and jobs.

        Raises `MissingPageError`, `CorruptRecordError`, the errors of the question, and the store's
        errors.
        """
        if self._pages is not None and manifest.log_id == self._pages.log_id:
            manifest = replace(manifest, pages=self._pages.for_edit())
        while True:
            try:
                return question(manifest)
            except PagesNeededError as needed:
                await manifest.pages.load(needed.places, manifest.tiers)
            except JobsNeededError:
                manifest = await self.with_jobs(manifest)

    async def with_jobs(self, manifest: LogManifest) -> LogManifest:
        """Return the manifest with its jobs at hand."""
        if manifest.has_jobs:
            return manifest
        found = await read_jobs(self.store, manifest.log_id)
        return replace(manifest, jobs=found.jobs, forgotten_jobs=found.forgotten, has_jobs=True)

    async def wait(self, version: int | None) -> None:
        """Return when the manifest may no longer be at `version` (None: may exist)."""
        await self.store.wait(self.path, version)

    async def edit(
        self, edit: Edit, *, look: Look | None = None, along: Sequence[Change] = ()
    ) -> LogManifest:
        """Apply an edit and return the manifest as it then is.

        If the edit creates the record, the changes of `along` are made with it or not at all. An
        edit that needs pages or jobs that are not at hand is applied again when they are.

        The result of `look` holds when the edit is made, if its writers change it together with
        `unchanged`: the manifest was read before.

        Raises the errors of the edit, which are final: the manifest lacks the change, and an
        earlier change with an unknown outcome can no longer land, because the version moved on.
        Raises `StoreOutcomeUnknownError` when it could not be settled, `StoreUnavailableError` when
        nothing was changed, `ConflictError` after `EDIT_ATTEMPTS_MAX` conflicts, `MissingPageError`
        when a page of the present manifest is lost.
        """
        unknown: StoreOutcomeUnknownError | None = None
        missing: int | None = None
        for _ in range(EDIT_ATTEMPTS_MAX):
            version: int | None = None
            try:
                before, version = await self.find()
                if look is not None:
                    await look()
                before, after = await self._apply(edit, before)
            except StoreUnavailableError as error:
                raise unknown or error from error
            except MissingPageError:
                if version == missing:
                    raise
                missing = version  # it is lost, or the manifest has changed
                continue
            if after == before:
                return self._shown(after)
            try:
                return await self._write(before, after, version, along)
            except (ConflictError, NoSuchNodeError):
                continue  # changed, or deleted: the edit decides
            except StoreOutcomeUnknownError as error:
                unknown = error
            except StoreUnavailableError as error:
                raise unknown or error from error
        raise unknown or ConflictError(
            f"log {self.name!r} changed {EDIT_ATTEMPTS_MAX} times while it was being changed"
        )

    async def _apply(
        self, edit: Edit, before: LogManifest | None
    ) -> tuple[LogManifest | None, LogManifest]:
        """Return the manifest that an edit was applied to, with its pages, and the result."""
        if before is not None and self._pages is not None:
            before = replace(before, pages=self._pages.for_edit())
        while True:
            try:
                return before, edit(before)
            except PagesNeededError as needed:
                assert before is not None
                await before.pages.load(needed.places, before.tiers)
            except JobsNeededError:
                assert before is not None
                before = await self.with_jobs(before)

    def _shown(self, manifest: LogManifest) -> LogManifest:
        """Return a manifest as `find` does: with few pages at hand, and without its jobs."""
        if self._pages is not None and manifest.log_id == self._pages.log_id:
            manifest = replace(manifest, pages=self._pages)
        if manifest.is_paged:
            manifest = replace(manifest, jobs=(), forgotten_jobs=(), has_jobs=False)
        return manifest

    def unchanged(self, manifest: LogManifest | None, version: int | None) -> Sequence[Change]:
        """Return the change that can be made only while the record is as it was found."""
        if manifest is None or version is None:
            return (Absent(self.path),)
        return (Put(self.path, manifest.encode(), version),)

    async def _write(
        self,
        before: LogManifest | None,
        after: LogManifest,
        version: int | None,
        along: Sequence[Change],
    ) -> LogManifest:
        """Write a manifest with its new pages and its jobs, and return it."""
        changes: list[Change] = []
        if after.is_paged or await self._level.allows(levels.PAGES_LEVEL):
            if before is None:
                self._pages = PagesAtHand(self.store, after.log_id, self._rng, PAGES_MAX)
                after = replace(after, pages=self._pages.for_edit())
            after = after.paged()
            changes += await self._write_pages(after)
            changes += await self._jobs_change(before, after)
        value = after.encode()
        if version is None:
            changes += [Create(self.path, value), *along]
        else:
            changes.append(Put(self.path, value, version))
        self.written = await self._make(changes)
        after = self._shown(after)
        self._last = value, after
        return after

    async def _make(self, changes: Sequence[Change]) -> int:
        """Make changes. One of them writes the record: return its version."""
        if len(changes) > 1:
            return (await self.store.commit(changes))[self.path]
        (change,) = changes
        if isinstance(change, Put):
            return await self.store.put(change.path, change.value, change.version)
        assert isinstance(change, Create)
        return await self.store.create(change.path, change.value)

    async def _write_pages(self, after: LogManifest) -> list[Change]:
        """Return the changes that create the pages that are new in a manifest.

        Pages that do not fit a transaction are created here: a crash leaves pages that no manifest
        names. A name that is taken is a conflict, like any other.
        """
        pages = after.pages
        if not isinstance(pages, PagesAtHand):
            return []
        fresh = pages.fresh_of(after.places)
        changes = [Create(page_path(after.log_id, name), fresh[name]) for name in sorted(fresh)]
        if sum(len(each.value) for each in changes) > TOGETHER_BYTES_MAX:
            for each in changes:
                await self.store.create(each.path, each.value)
            changes = []
        if self._pages is not None:
            for name in sorted(fresh):
                self._pages.hold(name, pages.page(name))
        return list(changes)

    async def _jobs_change(self, before: LogManifest | None, after: LogManifest) -> list[Change]:
        """Return the change that writes the jobs of a manifest, if they are others than before."""
        known = before is not None and before.is_paged
        old = (before.jobs, before.forgotten_jobs) if before is not None and known else ((), ())
        if not after.has_jobs or (after.jobs, after.forgotten_jobs) == old:
            return []
        found = await read_jobs(self.store, after.log_id)
        wanted = found._replace(jobs=after.jobs, forgotten=after.forgotten_jobs)
        return [wanted.change(after.log_id)]

    async def forget_jobs(self, log_id: str) -> Sequence[Change]:
        """Return the change that deletes the record of a log's jobs, if there is one."""
        found = await read_jobs(self.store, log_id)
        return [] if found.version is None else [Delete(log_jobs_path(log_id), found.version)]

    async def delete(self, version: int, along: Sequence[Change] = ()) -> None:
        """Delete the record if it is still at `version`, and make other changes with it or none.

        Raises `ConflictError`, `NoSuchLogError`, and the errors of the other changes.
        """
        try:
            await self.store.commit([Delete(self.path, version), *along])
        except NoSuchNodeError as error:
            if error.path == self.path:
                raise NoSuchLogError(self.name) from None
            raise
