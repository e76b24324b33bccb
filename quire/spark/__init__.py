"""Whole logs as Spark data frames, both ways, through PySpark's Python Data Source API.

    spark.read.format("quire").option("cluster", "./quire-data").option("log", "orders").load()

Planning happens on the driver, reading and writing in Spark's workers, each with a client of its
own. docs/spark.md has the options and the guarantees.

Read `options.py`, `offsets.py`, `where.py` and `packing.py` (pure), `source.py` (Spark finds it)
with `registration.py`, `batch.py`, `reading.py` (one part of a log), `stream.py` with `progress.py`
and `holding.py` (following), `writer.py`, `through_leader.py` with `chunks.py` (pure) and
`asking_gateways.py`, and `errors.py`; `jobs/` has whole programs, and `bookkeeper/` is format
`bookkeeper`: topics of Pulsar and logs of DistributedLog, read from their ledgers.

May import: quire.sync, quire.log, quire.ledger, values. pyspark is imported in this package and
nowhere else (`pip install 'quire[spark]'`).
"""

from quire.spark.reading import count, read
from quire.spark.registration import register
from quire.spark.source import LogDataSource

__all__ = ["LogDataSource", "count", "read", "register"]
