"""What differs between the versions of PySpark, from 4.0 on.

| from | PySpark has | before it |
|---|---|---|
| 4.1 | `DataSourceStreamArrowWriter` | a stream writer that also is an Arrow writer gets Arrow |
| 4.2 | arguments of `latestOffset`: the beginning, a limit | the reader remembers (`stream.py`) |

No other module of quire asks for a version.
"""

from __future__ import annotations

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

    class DataSourceStreamArrowWriter(  # type: ignore[no-redef, misc]
        DataSourceStreamWriter, DataSourceArrowWriter
    ):
        """Workers of 4.0 ask only whether a writer is an Arrow writer."""


try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    from dataclasses import dataclass

    class ReadLimit:  # type: ignore[no-redef]
        """How much a batch reads at most."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """No limit."""

    @dataclass(frozen=True)
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """So many rows."""

        max_rows: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Spark does not ask for it."""


__all__ = [
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
]
