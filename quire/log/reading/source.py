"""The source of a segment's entries: its ledger, or the file that it was offloaded to.

Readers of segments use both in the same way. The modules that read files need pyarrow, so they are
imported only for a segment in a file.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from quire.entry import EntryId
from quire.extras import needed_for
from quire.log.manifest.cold_files import ColdFile
from quire.log.records.batch import Base
from quire.log.segment_store.port import SegmentSource, SegmentStore

if TYPE_CHECKING:
    from types import ModuleType


async def open_source(
    segments: SegmentStore,
    ledger: int,
    cold: ColdFile | None,
    last: EntryId | None,
    base: Base | None,
    password: bytes,
) -> SegmentSource:
    """Open the source of a segment's entries, without disturbing its writer.

    As long as bookies keep the ledger, it is read where the file is missing or cannot be believed.
    Raises the ledger's errors. For a file also raises `MissingExtraError` (pyarrow is not
    installed), `ColdFileMissingError`, `CorruptStorageError` and `ColdTierError`.
    """
    if cold is None:
        return await segments.open(ledger, password=password)
    assert last is not None, "a segment in a file is sealed"
    with _cold(cold.uri):
        from quire.log.cold import reader
    kept = None if cold.alone else partial(segments.open, ledger, password=password)
    return await reader.open_file(cold, ledger, last, base, kept)


async def is_whole(cold: ColdFile, ledger: int) -> bool:
    """Whether a segment's file is as it was written, to its last byte.

    Raises `MissingExtraError`, `ColdTierError`.
    """
    with _cold(cold.uri):
        from quire.log.cold import reader
    return await reader.is_whole(cold, ledger)


def parquet(uri: str) -> ModuleType:
    """Return the module that writes files. Raises `MissingExtraError`."""
    with _cold(uri):
        from quire.log.cold import parquet
    return parquet


def door(uri: str) -> ModuleType:
    """Return the module that lists and deletes files of tiers. Raises `MissingExtraError`."""
    with _cold(uri):
        from quire.log.cold import tier
    return tier


def _cold(uri: str) -> AbstractContextManager[None]:
    return needed_for(f"{uri}, a segment in a Parquet file,", "cold")
