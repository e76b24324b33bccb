"""Watching logs: their names, and what one of them is made of.

A state between two looks may be left out; the last state never is. While metadata is out of
reach nothing is yielded.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from random import Random

from quire.aio.retry import retry
from quire.errors import MissingPageError, NoSuchLogError
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.record import ManifestRecord
from quire.metastore.layout import LOGS, unquote_name
from quire.metastore.store import MetadataStore


def names_of(children: Sequence[str]) -> list[str]:
    """Return the names of logs, sorted, from the names of their records."""
    return sorted(unquote_name(each) for each in children)


async def watch_names(store: MetadataStore, rng: Random) -> AsyncGenerator[Sequence[str], None]:
    """Yield the names of all logs, and again whenever they differ, without end."""
    seen: list[str] | None = None
    while True:
        found = await retry(partial(store.children, LOGS), rng)
        if found != seen:
            seen = found
            yield names_of(found)
        await retry(partial(store.wait_children, LOGS, found), rng)


async def watch_manifest(record: ManifestRecord, rng: Random) -> AsyncGenerator[LogManifest, None]:
    """Yield a log's manifest, and again whenever it differs, until the log is deleted.

    A log of the same name that was made meanwhile is not taken for it. Raises `NoSuchLogError` when
    the log does not exist at first.

    All pages are at hand (`ManifestRecord.whole`).
    """
    seen: LogManifest | None = None
    missing: int | None = None
    while True:
        found, version = await retry(record.find, rng)
        if found is None and seen is None:
            raise NoSuchLogError(record.name)
        if found is None or found.retired or (seen is not None and found.log_id != seen.log_id):
            return
        if found != seen:
            try:
                whole = await retry(partial(record.whole, found), rng)
            except MissingPageError:
                if version == missing:
                    raise
                missing = version  # it is lost, or the manifest has changed
                continue
            seen = found
            yield whole
        await retry(partial(record.wait, version), rng)
