"""The manifest in the metadata store: read it, watch it, change it by compare-and-set.

An edit is a function from the manifest as it is now (None if it does not exist) to the next.
It is applied to whatever was read, again after every conflict, and again after an unknown outcome;
so it has to recognise its own work (return its argument) and to refuse by raising. This is
the only place that writes a manifest, which is why an unknown outcome is settled in one place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from quire.errors import (
    ConflictError,
    NoSuchLogError,
    NoSuchNodeError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
)
from quire.log.manifest.manifest import LogManifest
from quire.metastore.changes import Change, Create, Delete, Put
from quire.metastore.layout import log_path
from quire.metastore.store import MetadataStore

EDIT_ATTEMPTS_MAX: Final = 64
"""Each lost attempt is another process's success, so this many in a row are not an accident."""

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
    """One log's manifest in a store. Stateless: any number may exist for one log."""

    def __init__(self, store: MetadataStore, name: str) -> None:
        self.name = name
        self.path = log_path(name)
        self._store = store

    async def find(self) -> tuple[LogManifest | None, int | None]:
        """Return manifest and version, both None when the log does not exist."""
        try:
            found = await self._store.get(self.path)
        except NoSuchNodeError:
            return None, None
        manifest = LogManifest.decode(self.path, found.value)
        return replace(manifest, ages=manifest.ages.seen(found.written_ms)), found.version

    async def read(self) -> tuple[LogManifest, int]:
        """Return manifest and version. Raises `NoSuchLogError`."""
        manifest, version = await self.find()
        if manifest is None or version is None:
            raise NoSuchLogError(self.name)
        return manifest, version

    async def wait(self, version: int | None) -> None:
        """Return when the manifest may no longer be at `version` (None: may exist)."""
        await self._store.wait(self.path, version)

    async def edit(
        self, edit: Edit, *, look: Look | None = None, along: Sequence[Change] = ()
    ) -> LogManifest:
        """Apply an edit and return the manifest as it then is.

        If the edit creates the record, the changes of `along` are made with it or not at all.

        The result of `look` holds when the edit is made, if its writers change it together with
        `unchanged`: the manifest was read before.

        Raises the errors of the edit, which are final: the manifest lacks the change, and an
        earlier change with an unknown outcome can no longer land, because the version moved on.
        Raises `StoreOutcomeUnknownError` when it could not be settled, `StoreUnavailableError` when
        nothing was changed, `ConflictError` after `EDIT_ATTEMPTS_MAX` conflicts.
        """
        unknown: StoreOutcomeUnknownError | None = None
        for _ in range(EDIT_ATTEMPTS_MAX):
            try:
                before, version = await self.find()
                if look is not None:
                    await look()
            except StoreUnavailableError as error:
                raise unknown or error from error
            after = edit(before)
            if after == before:
                return after
            try:
                await self._write(after, version, along)
                return after
            except (ConflictError, NoSuchNodeError):
                continue  # changed, or deleted: the edit decides
            except StoreOutcomeUnknownError as error:
                unknown = error
            except StoreUnavailableError as error:
                raise unknown or error from error
        raise unknown or ConflictError(
            f"log {self.name!r} changed {EDIT_ATTEMPTS_MAX} times while it was being changed"
        )

    def unchanged(self, manifest: LogManifest | None, version: int | None) -> Sequence[Change]:
        """Return the change that can be made only while the record is as it was found.

        Nothing for a record that does not exist, because the store cannot check that.
        """
        if manifest is None or version is None:
            return ()
        return (Put(self.path, manifest.encode(), version),)

    async def _write(
        self, manifest: LogManifest, version: int | None, along: Sequence[Change]
    ) -> None:
        if version is None and along:
            await self._store.commit([Create(self.path, manifest.encode()), *along])
        elif version is None:
            await self._store.create(self.path, manifest.encode())
        else:
            await self._store.put(self.path, manifest.encode(), version)

    async def delete(self, version: int, along: Sequence[Change] = ()) -> None:
        """Delete the record if it is still at `version`, and make other changes with it or none.

        Raises `ConflictError`, `NoSuchLogError`, and the errors of the other changes.
        """
        try:
            await self._store.commit([Delete(self.path, version), *along])
        except NoSuchNodeError as error:
            if error.path == self.path:
                raise NoSuchLogError(self.name) from None
            raise
