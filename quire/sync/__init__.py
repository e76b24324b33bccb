"""The blocking API: twins of the asynchronous one, over one private loop thread per process.

    with quire.sync.connect("./quire-data") as client:
        with client.open_log("orders") as log:
            log.append(b"buy 100")

Every name works as its asynchronous twin, without `await`; asynchronous iterators are plain ones.
The values that calls take and return are the same, and are exported here, too. `quire.sync.admin`
has the twins of `quire.admin`, and `quire.sync.sql` those of `quire.sql`.

Read `portal.py` (the loop's thread, and how calls get there), `handle.py`, then `client.py`; each
other module has the twins of what its name says. `twins.py` gives them their docstrings.

May import: every package that it twins. Never: quire.cli, quire.spark.
"""

from quire.errors import QuireError
from quire.log.manifest.options import LogOptions
from quire.log.records.attributes import NewRecord
from quire.log.records.batch import Compression
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING, LATEST, AtCursor, AtTxid, Position, Record
from quire.log.records.producers import ProducerSequence
from quire.service import Application
from quire.sync.client import SyncClient, connect
from quire.sync.cluster import SyncLocalCluster
from quire.sync.cursors import SyncCursor, SyncLogCursors
from quire.sync.elections import SyncElection, SyncLeadership
from quire.sync.leading import SyncLeadingLog
from quire.sync.ledgers import SyncLedgerReader, SyncLedgerWriter, SyncNumberedWriter
from quire.sync.logs import SyncLog, SyncLogReader
from quire.sync.services import SyncService
from quire.wire.certificates import TlsMode, TlsOptions

__all__ = [
    "BEGINNING",
    "LATEST",
    "Application",
    "AtCursor",
    "AtTxid",
    "Compression",
    "Keyring",
    "LogOptions",
    "NewRecord",
    "Position",
    "ProducerSequence",
    "QuireError",
    "Record",
    "SyncClient",
    "SyncCursor",
    "SyncElection",
    "SyncLeadership",
    "SyncLeadingLog",
    "SyncLedgerReader",
    "SyncLedgerWriter",
    "SyncLocalCluster",
    "SyncLog",
    "SyncLogCursors",
    "SyncLogReader",
    "SyncNumberedWriter",
    "SyncService",
    "TlsMode",
    "TlsOptions",
    "connect",
]
