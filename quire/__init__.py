"""quire: a replicated log. Start with `connect`; docs/architecture.md has the map.

What most applications need is here. Beside it are `quire.service` (replicated state machines),
`quire.ledgers` (below logs), `quire.inspect` (values that describe what is there), `quire.admin`
(rare operations on logs), `quire.errors` (the error tree), `quire.sync` (the blocking twins of all
this), `quire.sql` (SQL databases), `quire.testing` and `quire.spark`.
"""

from quire.aio.loops import run_async
from quire.client import Client
from quire.connection import connect
from quire.election.election import Election
from quire.election.leadership import Leadership
from quire.errors import QuireError
from quire.log.leader.log import Log
from quire.log.maintenance.cursor import Cursor
from quire.log.manifest.options import LogOptions
from quire.log.reading.reader import LogReader
from quire.log.records.attributes import NewRecord
from quire.log.records.batch import Compression
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING, LATEST, AtCursor, AtTxid, Position, Record
from quire.log.records.producers import ProducerSequence
from quire.service import Application, Service
from quire.version import __version__ as __version__
from quire.wire.certificates import TlsMode, TlsOptions

__all__ = [
    "BEGINNING",
    "LATEST",
    "Application",
    "AtCursor",
    "AtTxid",
    "Client",
    "Compression",
    "Cursor",
    "Election",
    "Keyring",
    "Leadership",
    "Log",
    "LogOptions",
    "LogReader",
    "NewRecord",
    "Position",
    "ProducerSequence",
    "QuireError",
    "Record",
    "Service",
    "TlsMode",
    "TlsOptions",
    "connect",
    "run_async",
]
