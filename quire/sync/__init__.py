"""The blocking API: twins of the asynchronous one, over one private loop thread per process.

    with quire.sync.connect("./quire-data") as client:
        with client.open_log("orders") as log:
            log.append(b"buy 100")

Every name works as its asynchronous twin, without `await`; asynchronous iterators are plain ones.

Read `portal.py` (the loop's thread, and how calls get there), `handle.py`, then `client.py`; each
other module has the twins of what its name says.

May import: every package that it twins. Never: quire.cli, quire.spark.
"""

from quire.sync.client import SyncClient, connect
from quire.sync.cluster import SyncLocalCluster
from quire.sync.cursors import SyncCursor, SyncLogCursors
from quire.sync.elections import SyncElection, SyncLeadership
from quire.sync.ingest import SyncIngest
from quire.sync.leading import SyncLeadingLog
from quire.sync.ledgers import SyncLedgerReader, SyncLedgerWriter, SyncNumberedWriter
from quire.sync.logs import SyncLog, SyncLogDirectory, SyncLogReader
from quire.sync.offloads import SyncOffload
from quire.sync.services import SyncService

__all__ = [
    "SyncClient",
    "SyncCursor",
    "SyncElection",
    "SyncIngest",
    "SyncLeadership",
    "SyncLeadingLog",
    "SyncLedgerReader",
    "SyncLedgerWriter",
    "SyncLocalCluster",
    "SyncLog",
    "SyncLogCursors",
    "SyncLogDirectory",
    "SyncLogReader",
    "SyncNumberedWriter",
    "SyncOffload",
    "SyncService",
    "connect",
]
