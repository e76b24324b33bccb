"""The data source that Spark finds under the name `bookkeeper`."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from quire.spark.bookkeeper.options import FORMAT, ForeignOptions, read_schema
from quire.spark.bookkeeper.reading import ForeignBatchReader
from quire.spark.bookkeeper.stream import ForeignStreamReader
from quire.spark.errors import reporting


@reporting
class BookKeeperDataSource(DataSource):
    """Format `bookkeeper`: docs/bookkeeper.md has the options."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return read_schema(dict(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = ForeignOptions.parse(dict(self.options))
        return ForeignBatchReader(options.with_columns(schema.fieldNames()))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = ForeignOptions.parse(dict(self.options), streaming=True)
        return ForeignStreamReader(options.with_columns(schema.fieldNames()))
