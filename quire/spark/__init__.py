"""Whole logs as Spark data frames, both ways, through PySpark's Python Data Source API.

    spark.read.format("quire").option("cluster", "./quire-data").option("log", "orders").load()

Planning happens on the driver, reading and writing in Spark's workers, each with a client of its
own. docs/spark.md has the options and the guarantees.

Read `options.py` and `packing.py` (pure), `source.py` (what Spark finds) with
`registration.py` (where), `batch.py`, `stream.py`
with `progress.py` (following), and `writer.py`; `jobs/` has whole programs.

May import: quire.sync, quire.log, quire.ledger, values. pyspark is imported in this package and
nowhere else (`pip install 'quire[spark]'`).
"""

from quire.spark.registration import register
from quire.spark.source import LogDataSource

__all__ = ["LogDataSource", "register"]
