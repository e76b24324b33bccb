"""Logs of other systems on Apache BookKeeper as Spark data frames: format `bookkeeper`.

    cluster = "zk://zoo1:2181/?ledgers=bookkeeper:/ledgers"
    spark.read.format("bookkeeper").options(cluster=cluster, topic="orders").load()

Topics of Apache Pulsar and logs of Apache DistributedLog are read from their ledgers: no broker
takes part, and none notices.
docs/bookkeeper.md has the options and the guarantees.

Read `system.py`, the seam between Spark and a system, then `topics.py`, its implementation for
Pulsar, `dlogs.py`, for DistributedLog, and `systems.py`, the list of them; `options.py` and
`places.py` (pure); `planning.py`, `reading.py`, `source.py` (Spark finds it), and `stream.py`.

May import: quire.spark, quire.bookkeeper, quire.columns, quire.sync, quire.client_ledgers, values.
"""
