"""Where a log ends for a job or a query: after the last record of a snapshot."""

from __future__ import annotations

from quire.log.reading.bounds import EVERYTHING
from quire.sync import SyncClient


def end_of(client: SyncClient, log: str, password: bytes) -> int:
    """Return the offset after the last record that can be read now. Raises `NoSuchLogError`.

    Later it may be less: a snapshot has the records that the answering bookies know as confirmed.
    """
    spans = client.snapshot_log(log, password=password, bounds=EVERYTHING)
    if spans:
        return spans[-1].offsets.stop
    manifest = client._logs.describe(log)
    if manifest.first_position[1:] == (0, 0):
        return manifest.first_offset
    # All that its first segment has was trimmed: the manifest has not counted that yet.
    return client.log_end(log, password=password).offset
