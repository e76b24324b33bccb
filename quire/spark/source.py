"""The data source that Spark finds under the format's name."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from quire.errors import InvalidRequestError
from quire.spark.batch import LedgerBatchReader, LogBatchReader
from quire.spark.errors import reporting
from quire.spark.options import ReadOptions, WriteOptions, read_schema
from quire.spark.routing import RoutedStreamWriter, RoutedWriter
from quire.spark.rows import check_schema
from quire.spark.stream import LogStreamReader
from quire.spark.through_leader import (
    LeaderOptions,
    LeaderStreamWriter,
    LeaderWriter,
    is_through_leader,
)
from quire.spark.writer import LogStreamWriter, LogWriter


@reporting
class LogDataSource(DataSource):
    """Format `quire`: docs/spark.md has the options."""

    @classmethod
    def name(cls) -> str:
        return "quire"

    def schema(self) -> str:
        return read_schema(dict(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = ReadOptions.parse(dict(self.options)).with_columns(schema.fieldNames())
        if options.ledger is not None:
            return LedgerBatchReader(options)
        return LogBatchReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        is_routed = self._check_rows(schema, overwrite, "use .mode('append')")
        given = dict(self.options)
        if is_through_leader(given):
            return LeaderWriter(LeaderOptions.parse(given, routed=is_routed))
        options = WriteOptions.parse(given, routed=is_routed)
        return RoutedWriter(options) if is_routed else LogWriter(options)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        remedy = "use .outputMode('append'), or 'update'"
        is_routed = self._check_rows(schema, overwrite, remedy)
        given = dict(self.options)
        if is_through_leader(given):
            return LeaderStreamWriter(LeaderOptions.parse(given, routed=is_routed))
        options = WriteOptions.parse(given, routed=is_routed)
        return RoutedStreamWriter(options) if is_routed else LogStreamWriter(options)

    def _check_rows(self, schema: StructType, overwrite: bool, remedy: str) -> bool:
        """Return whether the rows name their log. Raises if they cannot be appended."""
        if overwrite:
            raise InvalidRequestError(f"a log is only appended to: {remedy}")
        return check_schema(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = ReadOptions.parse(dict(self.options), streaming=True)
        return LogStreamReader(options.with_columns(schema.fieldNames()))
