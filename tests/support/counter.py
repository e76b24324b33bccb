"""The counter of ledger ids, moved by a test that sends bookies runs without a client."""

from __future__ import annotations

from quire.metastore import create_store
from quire.metastore.layout import LEDGER_IDS
from quire.metastore.record import encode_record


async def give_out(store_uri: str, below: int) -> None:
    """Say in an empty cluster's store that all ids below some number were given out."""
    store = await create_store(store_uri)
    try:
        await store.create(LEDGER_IDS, encode_record("ledger-ids", 1, {"next": below}))
    finally:
        await store.close()
