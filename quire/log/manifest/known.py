"""The manifests of many logs, looked at again and again: only those that changed are read.

A look asks the store once which records changed (`MetadataStore.changed`). So the answer is as
fresh as if every manifest had been read by the look.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from quire.aio.tasks import each
from quire.errors import NoSuchLogError
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.record import ManifestRecord
from quire.metastore.store import MetadataStore

READS_AT_ONCE: Final = 64

KNOWN_MAX: Final = 10_000
"""Manifests that are kept although a look did not ask for them; about 2 KB each."""


@dataclass(slots=True)
class _Known:
    """A manifest as last read; None for a log that did not exist."""

    record: ManifestRecord
    manifest: LogManifest | None = None
    version: int | None = None


class KnownManifests:
    """See the module. `record_of` returns the record of a log. Raises the store's errors, and
    `CorruptRecordError`.
    """

    def __init__(self, store: MetadataStore, record_of: Callable[[str], ManifestRecord]) -> None:
        self._store = store
        self._record_of = record_of
        self._known: dict[str, _Known] = {}

    async def look(self, names: Collection[str]) -> dict[str, LogManifest | None]:
        """Return the manifests as they are now, in the order of the names; None for no log."""
        wanted = {name: self._known.get(name) for name in names}
        seen = {known.record.path: known.version for known in wanted.values() if known}
        changed = set(await self._store.changed(seen)) if seen else set()
        stale = [
            name for name, known in wanted.items() if not known or known.record.path in changed
        ]
        await each(stale, self._read, READS_AT_ONCE)
        found = {name: self._known[name].manifest for name in names}
        if len(self._known) > KNOWN_MAX:
            self._known = {name: self._known[name] for name in found}
        return found

    async def read(self, name: str) -> LogManifest:
        """Return the manifest of one log, read now. Raises `NoSuchLogError`."""
        manifest = (await self._read(name)).manifest
        if manifest is None:
            raise NoSuchLogError(name)
        return manifest

    async def _read(self, name: str) -> _Known:
        known = self._known.get(name) or _Known(self._record_of(name))
        known.manifest, known.version = await known.record.find()
        self._known[name] = known
        return known
