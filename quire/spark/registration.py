"""Makes the formats known to a session, and the session known to a thread.

Spark finds the formats by itself where quire is installed (`pyspark_quire.py`,
`pyspark_quire_bookkeeper.py`). It looks for the formats of Python in the session that is active in
the calling thread. A thread that a program starts has none, and `save` fails there with "Failed to
find the data source".
"""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from quire.spark.bookkeeper.source import BookKeeperDataSource
from quire.spark.source import LogDataSource


def register(spark: SparkSession) -> None:
    """Register both formats in a session, and make the session this thread's active one.

    Call it in each thread of a pool that reads or writes (`initializer=register`), and where Spark
    does not find the format by itself. It may be called repeatedly.

    Args:
        spark: a session, also one of Spark Connect.

    Raises:
        PySparkException: Spark refuses it.

    Cancellation: nothing to undo.

    Guarantees: no job of Spark is started.
    """
    for source in (LogDataSource, BookKeeperDataSource):
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # 4.0, of those that it found
                raise
    spark.createDataFrame([], "id int")  # the public call that makes a session active
