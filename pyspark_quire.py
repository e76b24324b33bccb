"""Where Spark looks for format `quire` by itself: in the modules named `pyspark_…`.

Spark imports each of them at the first use of any Python data source. So an import that fails here
would break them all, whether a package is missing, too old, or cannot be loaded: the source that
stands in for quire's raises when it is used.
"""

from pyspark.sql.datasource import DataSource

from quire.extras import failed_import

try:
    from quire.spark.source import LogDataSource as DefaultSource
except Exception as _error:
    _failed = failed_import("format 'quire'", "spark", _error)

    class DefaultSource(DataSource):  # type: ignore[no-redef]
        """Format `quire` where an import failed."""

        @classmethod
        def name(cls) -> str:
            return "quire"

        def __init__(self, options: dict[str, str]) -> None:
            raise _failed


__all__ = ["DefaultSource"]
