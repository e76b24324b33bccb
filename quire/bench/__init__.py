"""Measures quire and the limits of this machine: `quire bench` is thin over this package.

Read `suite.py` (the whole benchmark), `figures.py` (its values), `raw.py` (the machine's limits),
then the measurements: `appends.py`, `reads.py`, `logs.py`, `operations.py`, `crash.py` with
`doomed.py` (a leader that is killed).

May import: the public names, quire.cluster, quire.wire (for the limits of gRPC).
"""

from quire.bench.figures import Figures, RawLimits, Report, TlsFigures
from quire.bench.logs import LogReport
from quire.bench.suite import measure, measure_logs

__all__ = ["Figures", "LogReport", "RawLimits", "Report", "TlsFigures", "measure", "measure_logs"]
