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
        options, routed = self._write_options(schema, overwrite, "use .mode('append')")
        return RoutedWriter(options) if routed else LogWriter(options)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        remedy = "use .outputMode('append'), or 'update'"
        options, routed = self._write_options(schema, overwrite, remedy)
        return RoutedStreamWriter(options) if routed else LogStreamWriter(options)

    def _write_options(
        self, schema: StructType, overwrite: bool, remedy: str
    ) -> tuple[WriteOptions, bool]:
        if overwrite:
            raise InvalidRequestError(f"a log is only appended to: {remedy}")
        is_routed = check_schema(schema)
        return WriteOptions.parse(dict(self.options), routed=is_routed), is_routed

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = ReadOptions.parse(dict(self.options), streaming=True)
        return LogStreamReader(options.with_columns(schema.fieldNames()))
