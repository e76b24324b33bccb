"""A job on a standalone cluster: a master, two workers, executors in JVMs of their own, ZooKeeper.

A stream copies a log, and one of the executors is killed while batches are left. `make
spark-cluster` kills drivers, too, again and again, with speculation and cancelled jobs.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

import quire.sync
from quire.sync import SyncLocalCluster
from tests.spark.drivers import kill, wait_for
from tests.spark.kill_drivers import content, has_ended_well, start
from tests.spark.standalone import standalone

RECORDS = 2100
"""Three micro-batches."""


@pytest.mark.timeout(600)  # seven Java processes start, on a machine that may be busy
def test_executors_of_a_cluster_write_each_record_once(tmp_path: Path) -> None:
    with (
        SyncLocalCluster(tmp_path / "cluster", bookies=3, zookeeper=1) as cluster,
        standalone(tmp_path / "spark") as spark,
    ):
        store = cluster.store_uri
        with quire.sync.connect(store) as client, client.open_log("source") as leader:
            for first in range(0, RECORDS, 10):
                leader.append_many([b"%d" % number for number in range(first, first + 10)])
        driver = start("stream", store, tmp_path, "--finish", master=spark.master)
        said = tmp_path / "stream.log"
        try:
            wait_for(driver, said, lambda: bool(content(store, "sink")))
            assert len(content(store, "sink")) < RECORDS, "it was done before the kill"
            assert spark.kill_executor(random.Random(1)), "no executor ran"
            wait_for(driver, said, partial(has_ended_well, driver))
        finally:
            kill(driver)
        assert content(store, "sink") == list(range(RECORDS))
