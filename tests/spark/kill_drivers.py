"""Kills Spark drivers at random moments, again and again, and checks what the logs hold after all.

    python -m tests.spark.kill_drivers --kills 20                  # in the process of the driver
    python -m tests.spark.kill_drivers --kills 20 --standalone     # executors, and ZooKeeper

Too slow for every test run: a session takes seconds to start, and every kill costs one. Two lives,
by turns; each driver with its JVM is a process group that gets SIGKILL, its Python workers with it.

    stream   one log is streamed into another while it is written to; the sink must have each record
             exactly once, in order
    batch    jobs with a name and a sequence are written one after the other, and workers are killed
             before the driver is; the log must have every job whole, once, in order. Some jobs
             are cancelled, and written again

With `--standalone` they run on a cluster of a master and two workers, with speculation. Then the
executors are killed, not Python processes. What the logs have is read by `plain_reader`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import quire.sync
from quire.sync import SyncLocalCluster
from tests.spark.drivers import GaveUpError, descendants, kill, start_driver, wait_for
from tests.spark.plain_reader import read_plainly
from tests.spark.standalone import Standalone, standalone

JOB_RECORDS = 5000
STREAM_RECORDS = 300
ATTEMPTS_MAX = 20
CANCELLED_EVERY = 3
ON_CLUSTER: dict[str, Any] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.task.maxFailures": "8",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
}
LOCAL = "local[2,4]"
"""A task whose worker dies has three more attempts."""
WORKER_KILLS_MAX = 3


def session(name: str, master: str) -> Any:
    """Return a session on this machine, or on a cluster, with tasks that are run twice."""
    from pyspark.sql import SparkSession

    from quire.spark.jobs import local_session

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # a session reads it as it begins
    if not master.startswith("local"):
        SparkSession.builder.master(master).config(map=ON_CLUSTER).getOrCreate()
    return local_session(name, master)


def stream(store: str, directory: Path, master: str, stop_when_done: bool) -> None:
    """The driver of the streaming life."""
    spark = session("kill stream", master)
    (directory / "ready").touch()
    source = spark.readStream.format("quire")
    source = source.options(cluster=store, log="source", maxRecordsPerTrigger=700, cursor="kill")
    sink = source.load().select("payload").writeStream.format("quire")
    sink = sink.options(cluster=store, log="sink", job="kill")
    sink = sink.option("checkpointLocation", str(directory / "checkpoint"))
    sink = sink.trigger(availableNow=True) if stop_when_done else sink
    sink.start().awaitTermination()
    spark.stop()


def batch(store: str, directory: Path, master: str, stop_when_done: bool) -> None:
    """The driver of the batch life: goes on behind the last job that it knows to be done."""
    spark = session("kill batch", master)
    (directory / "ready").touch()
    done = directory / "done"
    first = int(done.read_text()) if done.exists() else 0
    for sequence in range(first, first + (1 if stop_when_done else 10**6)):
        rows = spark.range(sequence * JOB_RECORDS, (sequence + 1) * JOB_RECORDS, 1, 3)
        writer = rows.selectExpr("cast(id as string) as payload").write.format("quire")
        writer = writer.mode("append").options(
            cluster=store, log="jobs", job="load", sequence=sequence
        )
        cancels = not stop_when_done and sequence % CANCELLED_EVERY == CANCELLED_EVERY - 1
        cancelling = threading.Timer(random.uniform(0.0, 1.0), spark.sparkContext.cancelAllJobs)
        if cancels:
            cancelling.start()
        save(writer)
        cancelling.cancel()
        done.write_text(str(sequence + 1))
    spark.stop()


def save(writer: Any) -> None:
    """Write a job, again when it fails: its name keeps it from being there twice."""
    for attempt in range(ATTEMPTS_MAX):
        try:
            writer.save()
            return
        except Exception as error:
            print(f"attempt {attempt} failed: {str(error)[:2000]}", flush=True)
    raise AssertionError("a job failed again and again")


LIVES = {"stream": stream, "batch": batch}
SINKS = {"stream": "sink", "batch": "jobs"}


def start(
    life: str, store: str, directory: Path, *more: str, master: str = LOCAL
) -> subprocess.Popen[bytes]:
    """Start a driver."""
    given = ("--life", life, "--store", store, "--directory", str(directory), "--master", master)
    return start_driver("tests.spark.kill_drivers", *given, *more, log=directory / f"{life}.log")


def kill_worker(driver: int, rng: random.Random) -> bool:
    """Kill one of the Python processes that run a driver's tasks, if there is one."""
    workers = []
    for each in descendants(driver):
        with contextlib.suppress(OSError):
            if b"pyspark.daemon" in Path(f"/proc/{each}/cmdline").read_bytes():
                workers.append(each)
    if not workers:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(rng.choice(sorted(workers)), signal.SIGKILL)
    return True


def content(store: str, log: str) -> list[int]:
    return [int(payload) for payload in read_plainly(store, log)]


def epoch(store: str, log: str) -> int:
    """How often a log was taken over, which is how many commits it has seen, and more."""
    with quire.sync.connect(store) as client:
        return client._logs.describe(log).epoch if log in client.list_logs() else 0


def wait_for_commit(process: subprocess.Popen[bytes], log: Path, store: str, sink: str) -> None:
    """Wait until the driver has written something."""
    before = epoch(store, sink)
    wait_for(process, log, lambda: epoch(store, sink) > before)


def rampage(
    store: str, directory: Path, kills: int, rng: random.Random, spark: Standalone | None = None
) -> None:
    """Kill, look, and let both lives come to their end. `spark` is the cluster that they run on."""
    written, ready = 0, directory / "ready"
    master = LOCAL if spark is None else spark.master
    for number in range(kills):
        life = ("stream", "batch")[number % 2]
        with quire.sync.connect(store) as client, client.open_log("source") as leader:
            for _ in range(STREAM_RECORDS):
                leader.append_many([b"%d" % n for n in range(written, written + 10)])
                written += 10
        ready.unlink(missing_ok=True)
        process = start(life, store, directory, master=master)
        executors = 0
        with contextlib.suppress(GaveUpError):
            wait_for(process, directory / f"{life}.log", ready.exists)
            if rng.random() < 0.7:  # else it dies before it has done anything
                wait_for_commit(process, directory / f"{life}.log", store, SINKS[life])
        for _ in range(WORKER_KILLS_MAX if life == "batch" else 0):
            time.sleep(rng.uniform(0.0, 2.0))
            executors += spark.kill_executor(rng) if spark else kill_worker(process.pid, rng)
        time.sleep(rng.uniform(0.0, 3.0))
        kill(process)
        jobs = content(store, "jobs")
        assert jobs == list(range(len(jobs))), "a job is missing, doubled or torn"
        assert len(jobs) % JOB_RECORDS == 0, "half a job"
        sink = content(store, "sink")
        assert sink == list(range(len(sink))), "the sink has lost or doubled a record"
        print(
            f"kill {number + 1} ({life}, {executors} workers): "
            f"{len(sink)} streamed, {len(jobs)} loaded",
            flush=True,
        )
    for life in LIVES:
        for _ in range(ATTEMPTS_MAX):
            process = start(life, store, directory, "--finish", master=master)
            with contextlib.suppress(GaveUpError):
                wait_for(process, directory / f"{life}.log", partial(has_ended_well, process))
                break
        else:
            raise AssertionError(f"the {life} never came to its end")
    assert content(store, "sink") == list(range(written))
    jobs = content(store, "jobs")
    assert jobs == list(range(len(jobs)))
    check_strays(store)
    print(f"{kills} kills: {written} records streamed once, {len(jobs) // JOB_RECORDS} jobs whole")


def has_ended_well(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() == 0


def check_strays(store: str) -> None:
    """Every ledger belongs to a log."""
    with quire.sync.connect(store) as client:
        listed = {
            segment.ledger
            for log in client.list_logs()
            for segment in client._logs.describe(log).segments
        }
        strays = [ledger for ledger in client.list_ledgers() if ledger not in listed]
    print(f"{len(strays)} ledgers that no log lists: {strays}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--life", choices=sorted(LIVES))
    parser.add_argument("--store")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--finish", action="store_true")
    parser.add_argument("--master", default=LOCAL)
    parser.add_argument("--standalone", action="store_true", help="on a cluster, with ZooKeeper")
    given = parser.parse_args()
    if given.life:
        LIVES[given.life](given.store, given.directory, given.master, given.finish)
        return
    zookeeper = 1 if given.standalone else None
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quire-kill-")))
        servers = SyncLocalCluster(scratch / "cluster", bookies=3, zookeeper=zookeeper)
        store = stack.enter_context(servers).store_uri
        spark = stack.enter_context(standalone(scratch / "spark")) if given.standalone else None
        rampage(store, scratch, given.kills, random.Random(given.seed), spark)


if __name__ == "__main__":
    main()
