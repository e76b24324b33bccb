"""The comparison with peers: what its tables say, and one short run of quire alone."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks.peers import machine, report
from benchmarks.peers.__main__ import appending, keep_part
from benchmarks.peers.bookkeeper import BookKeeper
from benchmarks.peers.distributedlog import DistributedLog
from benchmarks.peers.machine import Spent, check_disk, memory, spent
from benchmarks.peers.on_bookies import Bookies
from benchmarks.peers.peer import Took
from benchmarks.peers.report import Limit, Results, Run
from benchmarks.peers.rounds import Rounds
from benchmarks.peers.workloads import READ_FROM, WORKLOADS, Kind, Workload
from quire.bench.figures import Figures, RawLimits

ROOT = Path(__file__).resolve().parents[2]
ALONE, MANY = WORKLOADS[0], WORKLOADS[2]


def a_run(round_: int, peer: str, per_second: float, workload: str = ALONE.name) -> Run:
    return Run(
        round_, peer, "ledger", workload, per_second, 0.5, 2.0, 10.0, 20.0, 100.0, 6.0, 300.0
    )


def results(theirs: float = 500.0) -> Results:
    """Three rounds; the machine is slow in the second."""
    runs = []
    for number, speed in enumerate((1.0, 0.1, 1.2)):
        runs += [a_run(number, "quire", 1000 * speed), a_run(number, "Peer <1>", theirs * speed)]
    return Results(runs)


def test_a_ratio_is_of_one_round() -> None:
    assert results().ratios("Peer <1>", ALONE.name) == pytest.approx([2.0, 2.0, 2.0])


def test_a_round_that_a_peer_failed_in_has_no_ratio() -> None:
    found = Results(results().runs[:-1])
    assert found.ratios("Peer <1>", ALONE.name) == pytest.approx([2.0, 2.0])


def test_the_tables_name_rates_ratios_and_costs() -> None:
    text = report.tables(results(), [ALONE, MANY])
    assert f"| {ALONE.name} | 1,000 | 500 | 2.00 [2.00, 2.00] |" in text
    assert f"| {MANY.name} | – | – | – |" in text
    assert "0.50 / 2.0 · 10.0 + 20.0 · 6.0 · 100 · 300" in text


def test_one_round_has_no_spread() -> None:
    text = report.tables(Results(results().runs[:2]), [ALONE])
    assert f"| {ALONE.name} | 1,000 | 500 | 2.00 |" in text


def test_the_first_table_is_of_the_raw_limits() -> None:
    limits = [
        Limit(number, "a sync", rate, 4096, 0.5) for number, rate in enumerate((1e3, 4e3, 2e3))
    ]
    lines = report.tables(Results(results().runs, limits), [ALONE]).splitlines()
    assert lines[0].startswith("| raw limits of the machine |")
    assert lines[2] == "| a sync | 2,000 [1,000, 4,000] | 8 | 0.50 |"


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    place = tmp_path / "runs.json"
    limits = [Limit(0, "a sync", 1e3, 4096, 0.5)]
    place.write_text(report.record(Results(results().runs, limits), {"quire": "1"}))
    read = report.read_record(place)
    assert (read.runs, read.limits) == (results().runs, limits)


def test_a_record_of_before_has_no_limits(tmp_path: Path) -> None:
    place = tmp_path / "runs.json"
    found = json.loads(report.record(results(), {}))
    del found["limits"]
    place.write_text(json.dumps(found))
    assert report.read_record(place).limits == []


def test_runs_before_an_early_end_are_kept_beside_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "runs.json"
    keep_part(Results([]), [ALONE], place)
    assert not list(tmp_path.iterdir())
    keep_part(results(), [ALONE], place)
    part = tmp_path / "runs.part.json"
    assert list(tmp_path.iterdir()) == [part], "the record of before stays as it is"
    assert report.read_record(part).runs == results().runs
    said = capsys.readouterr()
    assert "| 1,000 | 500 |" in said.out
    assert str(part) in said.err
    keep_part(results(), [ALONE], tmp_path / "missing" / "runs.json")
    assert "only here" in capsys.readouterr().err


def test_what_fell_is_named() -> None:
    found = report.compare_with(results(1000.0), results(500.0))
    assert found.fallen == [f"{ALONE.name}: 1.00 × Peer <1>, was 2.00 ×"]
    assert str(found) == "1 ratios compared with the record, 1 fell"
    assert report.compare_with(results(520.0), results(500.0)).fallen == []


def test_a_ratio_that_the_record_lacks_is_told() -> None:
    found = report.compare_with(results(520.0), report.Results([]))
    assert str(found) == "0 ratios compared with the record, 0 fell; 1 are not in the record"


def test_the_plot_is_well_formed() -> None:
    drawn = ET.fromstring(report.plot(results(), WORKLOADS))
    texts = [each.text for each in drawn.iter() if each.tag.endswith("text")]
    assert texts == ["quire ÷ Peer <1>", ALONE.name, "2.00"]


def test_a_long_bar_is_cut_and_says_so() -> None:
    drawn = ET.fromstring(report.plot(results(20.0), WORKLOADS))
    texts = [each.text for each in drawn.iter() if each.tag.endswith("text")]
    assert texts[-1] == "50.00 …"
    assert max(float(each.get("width", 0)) for each in drawn) <= report.WIDTH


def test_processes_are_measured() -> None:
    before = spent([os.getpid()])
    sum(range(3_000_000))
    after = spent([os.getpid()])
    assert (after - before).cpu_seconds > 0
    assert memory([os.getpid()]) > 10_000_000


class Served:
    """A peer whose servers may end."""

    kinds: Sequence[Kind] = ("ledger",)

    def __init__(self, name: str, *commands: str) -> None:
        self.name = name
        self.commands = commands
        self.processes: list[subprocess.Popen[bytes]] = []
        self.runs = 0

    async def start(self) -> None:
        self.processes = [*map(self.launch, self.commands)]

    def launch(self, command: str) -> subprocess.Popen[bytes]:
        with Path(f"{self.name}.log").open("ab") as log:
            return subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, stderr=log)

    async def run(self, workload: Workload, seconds: float) -> Took:
        """The second server of `frail` ends in the fourth run, which follows the warm-up."""
        self.runs += 1
        if self.runs == 4 and len(self.processes) == 2:
            self.processes[1].communicate(b"end\n")
        return Took(1, 1.0, 1.0, 0.0, 0.0)

    def servers(self) -> Sequence[int]:
        return [each.pid for each in self.processes]

    async def stop(self) -> None:
        while self.processes:
            process = self.processes.pop()
            process.kill()
            process.communicate()


async def test_a_peer_that_loses_a_server_is_left_out_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "SETTLE_STEP", 0.01)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "set_threshold", lambda *thresholds: None)

    async def limits(tell: Callable[[str], None]) -> RawLimits:
        one = Figures("a limit", 1, 1, 1.0, 1.0, 1.0, 1.0)
        return RawLimits(one, one, one, one, one)

    frail = Served("frail", "exec cat", "read line; echo out of memory >&2")
    rounds = Rounds([frail, Served("firm", "exec cat")], [ALONE], 0.1, limits)
    await rounds.run(2)
    assert [each.peer for each in rounds.results.runs].count("firm") == 2
    assert [each.peer for each in rounds.results.runs].count("frail") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "frail is left out: its server with pid" in said
    assert "has ended; it said last: out of memory" in said
    assert not frail.processes


@pytest.mark.parametrize("workload", [ALONE.name, "Kafka's client: 1 KiB, one at a time"])
def test_a_short_run(workload: str, tmp_path: Path) -> None:
    record = tmp_path / "runs.json"
    words = ("--peers", "quire", "--rounds", "1", "--seconds", "0.2", "--only", workload)
    command = [sys.executable, "-m", "benchmarks.peers", *words, "--json", str(record)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(record.read_text())["runs"]
    assert run["workload"] == workload
    assert run["per_second"] > 0
    assert run["servers_us"] > 0


def test_distributedlog_appends_and_reads_back(tmp_path: Path) -> None:
    async def main() -> None:
        peer = DistributedLog(Bookies(tmp_path / "bookies", "tuned"))
        try:
            await peer.start()
            alone = await peer.run(Workload("log", 100, 1), 0.2)
            assert alone.entries > 0, "a lone record is sent after a while"
            appended = await peer.run(Workload("log", *READ_FROM), 0.2)
            read = await peer.run(Workload("log", 1024, 0), 0.2)
            assert read.entries == appended.entries > 0
            assert memory(peer.servers()) > 10_000_000
        finally:
            await peer.stop()
        assert peer.servers() == []

    asyncio.run(main())


def test_two_peers_share_bookies(tmp_path: Path) -> None:
    async def main() -> None:
        bookies = Bookies(tmp_path / "bookies", "tuned")
        peers = [BookKeeper(bookies, protocol) for protocol in ("v3", "v2")]
        assert [each.name for each in peers] == ["BookKeeper tuned", "BookKeeper tuned, v2"]
        try:
            for each in peers:
                await each.start()
            for each in peers:
                appended = await each.run(Workload("ledger", *READ_FROM), 0.2)
                assert appended.entries > 0
            await peers[0].stop()
            await peers[0].stop()
            read = await peers[1].run(Workload("ledger", 1024, 0), 0.2)
            assert read.entries == appended.entries, "the servers are still there"
        finally:
            for each in peers:
                await each.stop()
        assert bookies.pids() == []

    asyncio.run(main())


def test_an_unknown_peer_is_refused() -> None:
    command = [sys.executable, "-m", "benchmarks.peers", "--peers", "quire,Oracle"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "unknown peers: Oracle; known are quire, BookKeeper, Kafka," in done.stderr


@pytest.mark.parametrize(
    ("readings", "settled"),
    [
        ([(0, 0), (0.4, 0), (0.4, 5_000_000), (0.45, 5_000_000)], True),
        ([(0, 0), (0.4, 0), (0.8, 0), (1.2, 0), (1.6, 0)], False),
        ([(0, 0), (0, 5e6), (0, 10e6), (0, 15e6), (0, 20e6)], False),
    ],
)
async def test_a_run_waits_for_what_the_run_before_left(
    readings: list[tuple[float, int]], settled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [Spent(cpu, int(written), 0) for cpu, written in readings]
    monkeypatch.setattr(machine, "spent", lambda pids: left.pop(0))
    assert await machine.settle([1], 2.0) is settled
    assert not left


async def test_servers_are_idle_one_by_one_not_together(monkeypatch: pytest.MonkeyPatch) -> None:
    used = dict.fromkeys(range(20), 0.0)

    def look(pids: list[int]) -> Spent:
        used[pids[0]] += 0.04
        return Spent(used[pids[0]], 0, 0)

    monkeypatch.setattr(machine, "spent", look)
    assert await machine.settle(range(20), 1.0)
    monkeypatch.setattr(machine, "spent", lambda pids: look(pids) if pids[0] != 7 else busy(used))
    assert not await machine.settle(range(20), 1.0)


def busy(used: dict[int, float]) -> Spent:
    used[7] += 0.2
    return Spent(used[7], 0, 0)


def test_a_run_that_the_disk_has_no_space_for_does_not_begin(tmp_path: Path) -> None:
    check_disk(tmp_path, 0.0)
    with pytest.raises(ValueError, match=r"has [\d.]+ GB free, and this run may take .* TMPDIR"):
        check_disk(tmp_path, 1e12)


def test_readings_take_no_disk(tmp_path: Path) -> None:
    peers = [BookKeeper(Bookies(tmp_path, "default"))]
    ledgers = [each for each in WORKLOADS if each.kind == "ledger"]
    assert appending(peers, ledgers) == len(ledgers) - 1
