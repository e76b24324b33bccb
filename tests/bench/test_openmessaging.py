"""OpenMessaging Benchmark beside Kafka: its files, its process, and what the tables say."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.openmessaging import report, runs
from benchmarks.openmessaging.__main__ import parse
from benchmarks.openmessaging.runs import Run, RunFailedError, find_jars, run_benchmark, run_of
from benchmarks.openmessaging.workloads import UNBOUND, Workload, driver_file
from quire.errors import ConfigurationError

KIB = Workload(1024, 1000)
RESULTS: Mapping[str, Any] = {
    "publishRate": [1.0, 900.0, 1100.0, 1000.0],
    "consumeRate": [1.0, 800.0, 900.0, 850.0],
    "publishErrorRate": [4.0, 0.0, 0.0, 0.0],
    "backlog": [9, 8, 7, 6],
    **{
        f"{name}{part}pct": [500.0, factor * 1.0, factor * 3.0, factor * 2.0]
        for name in ("publishLatency", "endToEndLatency")
        for part, factor in (("50", 1), ("99", 10))
    },
}


def a_run(number: int, system: str, per_second: float) -> Run:
    return Run(number, system, KIB.name, per_second, 90.0, 2.5, 20.0, 3.0, 30.0, 0.0, 7, 1.5)


def test_the_first_period_is_left_out() -> None:
    found = run_of(RESULTS, 0, "quire", KIB, 1.5)
    assert (found.per_second, found.consumed, found.backlog) == (1000.0, 850.0, 6)
    assert (found.publish_p50_ms, found.publish_p99_ms) == (2.0, 20.0)
    assert (found.through_p50_ms, found.through_p99_ms) == (2.0, 20.0)
    assert found.errors == 1.0, "refused messages count in each period"


def test_a_run_of_one_period_has_no_figures() -> None:
    with pytest.raises(RunFailedError, match="two periods"):
        run_of({"publishRate": [1.0]}, 0, "quire", KIB, 1.5)


def test_the_table_has_quire_first_and_ratios_of_each_round() -> None:
    found = [
        *(a_run(number, "Kafka", rate) for number, rate in enumerate((50.0, 100.0))),
        *(a_run(number, "quire", 100.0) for number in range(2)),
        a_run(2, "Kafka", 1.0),
    ]
    head, _, own, other, *_ = report.tables(found).splitlines()
    assert head.startswith("| 1 KiB, 1,000 a second | published/s |")
    assert own == "| quire | 100 | 90 | 2.5 | 20.0 | 3 | 30 | 0.0 | 7 | 1.5 | – |"
    assert other == "| Kafka | 50 | 90 | 2.5 | 20.0 | 3 | 30 | 0.0 | 7 | 1.5 | 1.50 [1.00, 2.00] |"
    assert json.loads(report.record(found, {"load": 1}))["runs"][0]["per_second"] == 50.0


def test_files_say_what_is_asked_for() -> None:
    workload = json.loads(Workload(100, 0).file(3))
    assert (workload["producerRate"], workload["testDurationMinutes"]) == (UNBOUND, 3)
    assert (workload["topics"], workload["partitionsPerTopic"]) == (1, 1)
    driver = json.loads(driver_file("Kafka", ["a:1", "b:2"], {"min.insync.replicas": 2}))
    assert driver["commonConfig"] == "bootstrap.servers=a:1,b:2\n"
    assert driver["topicConfig"] == "min.insync.replicas=2\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--systems", "quire,pulsar"], "unknown systems: pulsar; known are quire, default"),
        (["--sizes", "0"], "a size is 1 or more"),
        (["--rates", "many"], "--rates many"),
        (["--minutes", "0"], "whole minutes"),
        (["--rounds", "0"], "--rounds 0"),
    ],
)
def test_a_wrong_option_is_named(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(["--benchmark", ".", *words])
    assert said in " ".join(capsys.readouterr().err.split())


def test_the_jars_are_found_in_the_package_or_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="benchmark-framework"):
        find_jars(tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "io.openmessaging.benchmark-benchmark-framework-1.jar").touch()
    assert find_jars(tmp_path) == tmp_path / "lib"
    assert find_jars(tmp_path / "lib") == tmp_path / "lib"


def a_java(directory: Path, program: str) -> Path:
    """A program in place of the JVM; it has the words of the benchmark."""
    made = directory / "java"
    made.write_text(f"#!/bin/sh\necho $$ > pid\n{program}\n")
    made.chmod(0o755)
    return made


async def run_with(monkeypatch: pytest.MonkeyPatch, place: Path, program: str) -> Mapping[str, Any]:
    monkeypatch.setattr(runs, "find_java", lambda: a_java(place, program))
    return await run_benchmark(place, place, "{}", KIB, 1)


def has_ended(place: Path) -> bool:
    try:
        os.kill(int((place / "pid").read_text()), 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.real_time
async def test_the_process_is_ended_when_its_results_are_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = "echo '{\"publishRate\": [1]}' > results.json\nexec sleep 1000"
    assert await run_with(monkeypatch, tmp_path, program) == {"publishRate": [1]}
    assert has_ended(tmp_path)


@pytest.mark.real_time
async def test_a_process_without_results_is_quoted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(RunFailedError, match="no broker"):
        await run_with(monkeypatch, tmp_path, "echo no broker >&2")


@pytest.mark.real_time
async def test_a_process_that_tries_forever_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(runs, "BESIDE_SECONDS", -59.5)
    monkeypatch.setattr(runs, "LOOK_SECONDS", 0.1)
    with pytest.raises(RunFailedError, match="no results"):
        await run_with(monkeypatch, tmp_path, "exec sleep 1000")
    assert has_ended(tmp_path)


@pytest.mark.real_time
async def test_a_cancelled_run_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    task = asyncio.ensure_future(run_with(monkeypatch, tmp_path, "exec sleep 1000"))
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        await asyncio.wait([task], timeout=0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert has_ended(tmp_path)
