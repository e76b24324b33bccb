"""Measures quire and the limits of this machine: `quire bench` is thin over this package."""

from quire.bench.figures import Figures, RawLimits, Report
from quire.bench.logs import LogReport
from quire.bench.suite import measure, measure_logs

__all__ = ["Figures", "LogReport", "RawLimits", "Report", "measure", "measure_logs"]
