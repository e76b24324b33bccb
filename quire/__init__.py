"""quire: a replicated log. Start with `connect`; docs/architecture.md has the map.

Everything a program needs is here, and the error tree in `quire.errors`. The blocking twins of all
this are in `quire.sync`, Spark's data source in `quire.spark`.
"""

from quire.bookie import BookieAddress, BookieInfo
from quire.client import Client
from quire.connection import connect
from quire.election.election import Election, Leader, Leadership
from quire.entry import NO_ENTRY, DigestKind, Entry
from quire.errors import QuireError
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.numbered import NumberedWriter
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.reader import LedgerReader
from quire.ledger.writer import LedgerWriter
from quire.log.leader.log import Log
from quire.log.maintenance.cursors import Cursor, CursorState, LogCursors
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.manifest.options import LogOptions
from quire.log.reading.gaps import Gap
from quire.log.reading.reader import LogReader
from quire.log.reading.search import LogEnd
from quire.log.reading.span import Span
from quire.log.records.batch import Compression
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING, LATEST, AtCursor, AtTxid, Position, Record
from quire.log.records.producers import ProducerSequence
from quire.service import Application, Applied, Role, Service, ServiceOptions
from quire.version import __version__ as __version__

__all__ = [
    "BEGINNING",
    "LATEST",
    "NO_ENTRY",
    "Application",
    "Applied",
    "AtCursor",
    "AtTxid",
    "BookieAddress",
    "BookieInfo",
    "Client",
    "Compression",
    "Cursor",
    "CursorState",
    "DigestKind",
    "Election",
    "Entry",
    "Fragment",
    "Gap",
    "Keyring",
    "Leader",
    "Leadership",
    "LedgerMetadata",
    "LedgerOptions",
    "LedgerReader",
    "LedgerState",
    "LedgerWriter",
    "Log",
    "LogCursors",
    "LogEnd",
    "LogManifest",
    "LogOptions",
    "LogReader",
    "NumberedWriter",
    "Position",
    "ProducerSequence",
    "QuireError",
    "Record",
    "Replication",
    "Role",
    "Segment",
    "Service",
    "ServiceOptions",
    "Span",
    "connect",
]
