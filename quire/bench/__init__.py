"""How fast is quire here, and how fast could anything be: `quire bench` is thin over this."""

from quire.bench.figures import Figures, RawLimits, Report
from quire.bench.suite import measure

__all__ = ["Figures", "RawLimits", "Report", "measure"]
