"""Jobs over whole logs, as programs for a Spark session: audit, replay, compact, offload.

Each takes a session and reports its result; `quire spark` runs them from the command line. All of
them read snapshots and do not disturb the writer. Jobs that write do so all or nothing, and offload
moves whole segments.

Read `audit.py`, `copy.py`, `offload.py`; `session.py` makes a Spark session for the command line.

May import: quire.spark, and what that may.
"""

from quire.spark.jobs.audit import LogAudit, SegmentAudit, audit_logs
from quire.spark.jobs.copy import Copied, compact_log, replay_log
from quire.spark.jobs.offload import Offloaded, offload_log
from quire.spark.jobs.session import local_session

__all__ = [
    "Copied",
    "LogAudit",
    "Offloaded",
    "SegmentAudit",
    "audit_logs",
    "compact_log",
    "local_session",
    "offload_log",
    "replay_log",
]
