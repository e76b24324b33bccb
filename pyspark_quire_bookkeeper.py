"""Where Spark looks for format `bookkeeper` by itself: in the modules named `pyspark_…`.

As in `pyspark_quire.py`, an import that fails breaks no other format.
"""

from pyspark.sql.datasource import DataSource

from quire.extras import failed_import

try:
    from quire.spark.bookkeeper.source import BookKeeperDataSource as DefaultSource
except Exception as _error:
    _failed = failed_import("format 'bookkeeper'", "spark", _error)

    class DefaultSource(DataSource):  # type: ignore[no-redef]
        """Format `bookkeeper` where an import failed."""

        @classmethod
        def name(cls) -> str:
            return "bookkeeper"

        def __init__(self, options: dict[str, str]) -> None:
            raise _failed


__all__ = ["DefaultSource"]
