"""A log whose segments a test counts: rolled by hand, for by itself a log rolls when it has the
time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing

import quire.sync
from quire.log.manifest.manifest import LogManifest
from quire.metastore.layout import log_path


def append_in_segments(
    cluster: str, log: str, batches: Iterable[list[bytes]], entries: int | None
) -> None:
    """Lead a log and append batches, one to an entry, so many entries to a segment; None: one
    segment for all.
    """
    with quire.sync.connect(cluster) as client, client.open_log(log) as leader:
        for number, batch in enumerate(batches):
            if entries and number and number % entries == 0:
                leader.roll()
            leader.append_many(batch)


def edit(cluster: str, log: str, change: Callable[[LogManifest], LogManifest]) -> None:
    """Change a manifest behind everybody's back."""
    overwrite(cluster, log, lambda data: change(LogManifest.decode(log_path(log), data)).encode())


def overwrite(cluster: str, log: str, change: Callable[[bytes], bytes]) -> None:
    """Change the record of a manifest behind everybody's back."""
    path = log_path(log)
    with closing(sqlite3.connect(cluster.removeprefix("sqlite://"))) as store, store:
        (data,) = store.execute("select value from records where path = ?", (path,)).fetchone()
        store.execute("update records set value = ? where path = ?", (change(data), path))
