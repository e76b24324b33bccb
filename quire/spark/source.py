"""The data source: what Spark finds behind the format's name."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from quire.spark.batch import FilteringLogReader, LedgerReader, LogReader
from quire.spark.options import ReadOptions, read_schema
from quire.spark.stream import LogStreamReader


class LogDataSource(DataSource):
    """Format `quire`: docs/spark.md has the options."""

    @classmethod
    def name(cls) -> str:
        return "quire"

    def schema(self) -> str:
        return read_schema(dict(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = ReadOptions.parse(dict(self.options))
        if options.ledger is not None:
            return LedgerReader(options)
        return FilteringLogReader(options) if options.pushdown else LogReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return LogStreamReader(ReadOptions.parse(dict(self.options), streaming=True))
