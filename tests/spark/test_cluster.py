"""A job on a standalone cluster: a master, two workers, executors in JVMs of their own, ZooKeeper.

A stream copies a log, and one of the executors is killed while batches are left. `make
spark-cluster` kills drivers, too, again and again, with speculation and cancelled jobs.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import quire.sync
from quire.sync import SyncLocalCluster
from tests.spark.drivers import kill, wait_for
from tests.spark.kill_drivers import content, start
from tests.spark.standalone import standalone

FIRST, RECORDS = 700, 2100
"""The first micro-batch, and all three."""


def append(store: str, first: int, end: int) -> None:
    with quire.sync.connect(store) as client, client.open_log("source") as leader:
        for number in range(first, end, 10):
            leader.append_many([b"%d" % each for each in range(number, number + 10)])


@pytest.mark.timeout(600)  # seven Java processes start, on a machine that may be busy
def test_executors_of_a_cluster_write_each_record_once(tmp_path: Path) -> None:
    with (
        SyncLocalCluster(tmp_path / "cluster", bookies=3, zookeeper=1) as cluster,
        standalone(tmp_path / "spark") as spark,
    ):
        store = cluster.store_uri
        append(store, 0, FIRST)
        driver = start("stream", store, tmp_path, master=spark.master)
        said = tmp_path / "stream.log"
        try:
            wait_for(driver, said, lambda: len(content(store, "sink")) == FIRST)
            append(store, FIRST, RECORDS)
            assert spark.kill_executor(random.Random(1)), "no executor ran"
            wait_for(driver, said, lambda: len(content(store, "sink")) >= RECORDS)
        finally:
            kill(driver)
        assert content(store, "sink") == list(range(RECORDS))
