"""Where Spark looks for format `quire` by itself: in the modules named `pyspark_…`.

Spark imports each of them at the first use of any Python data source. So an import that fails here
would break them all: the source that stands in for quire's raises when it is used.
"""

from pyspark.sql.datasource import DataSource

from quire.errors import MissingExtraError

try:
    from quire.spark.source import LogDataSource as DefaultSource
except ModuleNotFoundError as _error:
    _package = _error.name or "pyarrow"

    class DefaultSource(DataSource):  # type: ignore[no-redef]
        """Format `quire` where a package is missing."""

        @classmethod
        def name(cls) -> str:
            return "quire"

        def __init__(self, options: dict[str, str]) -> None:
            raise MissingExtraError("format 'quire'", _package, "spark")


__all__ = ["DefaultSource"]
