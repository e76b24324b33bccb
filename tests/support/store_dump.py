"""All records of a metadata store, to compare what they were before a call and are after it."""

from __future__ import annotations

from quire.metastore.store import MetadataStore, Versioned


async def dump(store: MetadataStore, path: str = "/quire") -> dict[str, Versioned]:
    """Return each record at the path or below it: its value and version."""
    found = {path: await store.get(path)}
    for name in await store.children(path):
        found |= await dump(store, f"{path}/{name}")
    return found
