"""One client per worker process, kept from task to task.

Connecting costs a few round trips; Spark reuses its worker processes, and so are their connections.
Only the connection to the last cluster is kept.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Final

import quire.sync
from quire.ledger.options import LedgerOptions
from quire.log.records.keyring import Keyring, read_key_file
from quire.sync import SyncClient

OPTIONS: Final = LedgerOptions(read_ahead_bytes=16 * 1024 * 1024, small_read_bytes=64 * 1024)
"""Workers read from end to end: four answers of the largest size are under way. A log may have
thousands of small segments.
"""

_kept: tuple[int, str, SyncClient, AbstractContextManager[SyncClient]] | None = None


def worker_client(cluster: str) -> SyncClient:
    """Return this process's client of a cluster. Raises as `quire.connect`."""
    global _kept
    if _kept is not None and _kept[:2] == (os.getpid(), cluster):
        return _kept[2]
    if _kept is not None and _kept[0] == os.getpid():
        kept, _kept = _kept, None
        kept[3].__exit__(None, None, None)
    manager = quire.sync.connect(cluster, options=OPTIONS)
    client = manager.__enter__()
    _kept = (os.getpid(), cluster, client, manager)
    return client


def worker_keyring(key_file: str | None) -> Keyring | None:
    """Return the keys of a file on this machine: keys are not sent from process to process.

    The file is read again when it has changed, since keys are rotated while a query runs.
    """
    if key_file is None:
        return None
    try:
        found = os.stat(key_file)
    except OSError:
        return read_key_file(key_file)  # its error names the defect
    return _read_keyring(key_file, (found.st_mtime_ns, found.st_size, found.st_ino))


@lru_cache(maxsize=8)
def _read_keyring(key_file: str, seen_as: tuple[int, ...]) -> Keyring:
    return read_key_file(key_file)
