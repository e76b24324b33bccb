"""The record of a new ledger in a metadata store, whatever its format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quire.errors import InvalidRequestError
from quire.metastore.changes import Change, Create
from quire.metastore.layout import VALUE_BYTES_MAX
from quire.metastore.store import MetadataStore

NEW_BYTES_MAX: Final = VALUE_BYTES_MAX // 2
"""Bytes of a new record: it grows with every fragment, and must still take its end."""


async def create_record(
    store: MetadataStore, path: str, value: bytes, along: Sequence[Change]
) -> int:
    """Create a ledger's record, together with changes along it, and return its version.

    Raises `InvalidRequestError` for a record that is too large, and the store's errors.
    """
    if len(value) > NEW_BYTES_MAX:
        raise InvalidRequestError(
            f"a new ledger's record has {len(value)} bytes with its custom metadata, at most "
            f"{NEW_BYTES_MAX} are allowed: keep large values in entries"
        )
    if along:
        return (await store.commit([Create(path, value), *along]))[path]
    return await store.create(path, value)
