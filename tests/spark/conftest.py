"""One real Spark session for all tests of this folder: starting one takes six seconds."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import quire.sync
from quire.sync import SyncLocalCluster
from tests.support.java import BRISK, java_home

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The store of three bookie processes, for all tests of this folder."""
    with SyncLocalCluster(tmp_path_factory.mktemp("cluster"), bookies=3) as running:
        yield running.store_uri


@pytest.fixture(scope="module")
def cluster(running_cluster: str) -> Iterator[str]:
    """The same store; each file begins without logs, for another may have used its names."""
    yield running_cluster
    with quire.sync.connect(running_cluster) as client:
        for log in client.list_logs():
            client.delete_log(log)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session whose workers run this interpreter and import this checkout."""
    environment = {
        "JAVA_HOME": str(java_home(tmp_path_factory.mktemp("java"))),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **BRISK,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        on_interrupt = signal.getsignal(signal.SIGINT)
        session = (
            SparkSession.builder.master("local[2]")
            .appName("quire-tests")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.python.filterPushdown.enabled", "true")
            .config("spark.sql.shuffle.partitions", "2")
            # Plans of a few hundred rows: compiling and replanning them costs more than they do.
            # Commands and killed drivers, which have sessions of their own, run as Spark comes.
            .config("spark.sql.codegen.wholeStage", "false")
            .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
            .config("spark.sql.adaptive.enabled", "false")
            .getOrCreate()
        )
        # Spark's own handler raises wherever the signal comes; other tests of this process rely on
        # an event loop's, which is installed only in the place of the default one.
        signal.signal(signal.SIGINT, on_interrupt)
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()
        os.environ.pop("PYSPARK_GATEWAY_PORT", None)
