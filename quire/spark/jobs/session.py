"""A Spark session for the command line, quiet and with the right interpreter."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from quire.spark.source import LogDataSource


def local_session(name: str, master: str | None = None) -> SparkSession:
    """Return a session with the data source registered; the caller stops it.

    Without `master` spark-submit's own settings count, and this machine where there are none.
    Workers run this interpreter unless PYSPARK_PYTHON names another one.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            builder = builder.config("spark.driver.host", "127.0.0.1")
            builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
            builder = builder.config("spark.ui.enabled", "false")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(LogDataSource)
    return session
