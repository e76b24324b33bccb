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
from quire.spark.stream import LogStreamReader
from quire.spark.writer import LogStreamWriter, LogWriter, check_schema


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
        return LogWriter(self._write_options(schema, overwrite, "use .mode('append')"))

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        remedy = "use .outputMode('append'), or 'update'"
        return LogStreamWriter(self._write_options(schema, overwrite, remedy))

    def _write_options(self, schema: StructType, overwrite: bool, remedy: str) -> WriteOptions:
        if overwrite:
            raise InvalidRequestError(f"a log is only appended to: {remedy}")
        options = WriteOptions.parse(dict(self.options))
        check_schema(schema)
        return options

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = ReadOptions.parse(dict(self.options), streaming=True)
        return LogStreamReader(options.with_columns(schema.fieldNames()))
