"""Values that describe what is there: logs, segments, ledgers, bookies, cursors, elections.

All of them are read-only. Calls of `Client`, `Log`, `LogReader` and `Election` return them; a
program names them in its annotations. The types of objects that calls return and that a program
rarely names are here, too: `Opening`, `OpeningReader`, `LeadingLog` and `LogCursors`.
"""

from quire.bookie import BookieAddress, BookieInfo, LedgerUse, LedgerUses, TlsPorts, UseKind
from quire.election.election import Leader
from quire.labels import Domain, Labels
from quire.leading import LeadingLog
from quire.ledger.info import FragmentInfo, LedgerInfo
from quire.ledger.inventory import Holding, Inventory, Shortage
from quire.ledger.metadata import LedgerState
from quire.ledger.ranges import Ranges
from quire.log.leader.tables import AppendedTable
from quire.log.maintenance.cursor_record import CursorInfo
from quire.log.maintenance.cursors import LogCursors
from quire.log.manifest.cold_files import ColdFile
from quire.log.manifest.info import LogInfo, LogLeader, SegmentInfo
from quire.log.reading.bounds import EVERYTHING, Bounds
from quire.log.reading.gaps import Gap, OnGap
from quire.log.reading.search import LogEnd
from quire.log.reading.segment_reader import RecordBatch
from quire.log.reading.span import Slice, Span
from quire.log.records.attributes import AttributeColumns, Attributes
from quire.log.records.batch import Base, Batch, BatchHeader
from quire.log.records.position import Appended, Start
from quire.log.records.txids import Txids
from quire.metadata.check import Finding
from quire.metadata.recordless import Recordless, RecordlessLedgers
from quire.opening import Opening, OpeningReader
from quire.scan import Place

__all__ = [
    "EVERYTHING",
    "Appended",
    "AppendedTable",
    "AttributeColumns",
    "Attributes",
    "Base",
    "Batch",
    "BatchHeader",
    "BookieAddress",
    "BookieInfo",
    "Bounds",
    "ColdFile",
    "CursorInfo",
    "Domain",
    "Finding",
    "FragmentInfo",
    "Gap",
    "Holding",
    "Inventory",
    "Labels",
    "Leader",
    "LeadingLog",
    "LedgerInfo",
    "LedgerState",
    "LedgerUse",
    "LedgerUses",
    "LogCursors",
    "LogEnd",
    "LogInfo",
    "LogLeader",
    "OnGap",
    "Opening",
    "OpeningReader",
    "Place",
    "Ranges",
    "RecordBatch",
    "Recordless",
    "RecordlessLedgers",
    "SegmentInfo",
    "Shortage",
    "Slice",
    "Span",
    "Start",
    "TlsPorts",
    "Txids",
    "UseKind",
]
