"""A log whose segments a test counts: rolled by hand, for by itself a log rolls when it has the
time.
"""

from __future__ import annotations

from collections.abc import Iterable

import quire.sync


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
