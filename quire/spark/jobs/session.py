"""A Spark session for the command line, quiet and with the right interpreter."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from quire.spark.registration import register

SILENCE_SECONDS_MAX: Final = 2.0
"""How long `silence_java` waits for an answer of Java's."""


def start_java() -> None:
    """Start the process of Java that sessions work in, where none runs for us yet.

    Interrupted before it returns, it leaves a Java process that quire does not end.
    """
    SparkContext.getSystemProperty("java.version")  # a question that only Java can answer


def find_java() -> Any:
    """Return the Popen of what `start_java` started; None under spark-submit, which started us."""
    return getattr(SparkContext._gateway, "proc", None)


def silence_java() -> None:
    """Keep Java, as far as it answers, from telling in stack traces what ending it breaks off, and
    our own server that listens to it.
    """
    server = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *request: None

    def silence() -> None:
        jvm = SparkContext._jvm
        if jvm is not None:
            with suppress(Py4JError, OSError):
                logging = jvm.org.apache.logging.log4j
                logging.core.config.Configurator.setRootLevel(logging.Level.OFF)

    # Every thread has a connection of its own, and this one's may be in the middle of a question.
    elsewhere = ThreadPoolExecutor(1)
    with suppress(TimeoutError):
        elsewhere.submit(silence).result(SILENCE_SECONDS_MAX)
    elsewhere.shutdown(wait=False)  # it ends with Java


def local_session(name: str, master: str | None = None) -> SparkSession:
    """Return a session with the data source registered; the caller stops it.

    Without `master` spark-submit's own settings count, or else this machine.
    Workers run this interpreter unless PYSPARK_PYTHON names another. The handler of Ctrl-C stays
    as it is: Spark would replace it.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setAppName(name).set("spark.ui.showConsoleProgress", "false")
    if master is not None:
        conf.setMaster(master)
        if master.startswith("local"):
            conf.set("spark.driver.host", "127.0.0.1")
            conf.set("spark.driver.bindAddress", "127.0.0.1")
            conf.set("spark.ui.enabled", "false")
    with ThreadPoolExecutor(1) as elsewhere:  # Spark takes Ctrl-C only in the main thread
        elsewhere.submit(SparkContext.getOrCreate, conf).result()
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    return session
