"""Where Spark looks for format `bookkeeper` by itself: in the modules named `pyspark_…`.

As in `pyspark_quire.py`, a missing package breaks no other format.
"""

from pyspark.sql.datasource import DataSource

from quire.errors import MissingExtraError

try:
    from quire.spark.bookkeeper.source import BookKeeperDataSource as DefaultSource
except ModuleNotFoundError as _error:
    _package = _error.name or "pyarrow"

    class DefaultSource(DataSource):  # type: ignore[no-redef]
        """Format `bookkeeper` where a package is missing."""

        @classmethod
        def name(cls) -> str:
            return "bookkeeper"

        def __init__(self, options: dict[str, str]) -> None:
            raise MissingExtraError("format 'bookkeeper'", _package, "spark")


__all__ = ["DefaultSource"]
