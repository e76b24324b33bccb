"""`quire cluster up` as people use it: start, Ctrl-C, start again."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support.command import is_running, quire, started

WAIT_SECONDS = 60.0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_stops_everything_and_says_what_is_kept(tmp_path: Path, how: signal.Signals) -> None:
    data = tmp_path / "data"
    with started("cluster", "up", "--bookies", "2", "--data", str(data), "--json") as up:
        assert up.stdout is not None
        said = json.loads(up.stdout.readline())
        pids = [bookie["pid"] for bookie in said["bookies"]]
        assert all(map(is_running, pids))
        up.send_signal(how)
        _, err = up.communicate(timeout=WAIT_SECONDS)
        assert up.returncode == 130
        assert f"The data is kept in {data}: the same command resumes it." in err
        assert not any(map(is_running, pids))
    assert (data / "metadata.db").exists()


def test_sigterm_ends_it_where_ctrl_c_is_ignored(tmp_path: Path) -> None:
    """As in a script that puts it into the background."""
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is ignored is inherited
    try:
        with started("cluster", "up", "--bookies", "1", "--data", str(tmp_path), "--json") as up:
            assert up.stdout is not None
            up.stdout.readline()
            up.send_signal(signal.SIGINT)
            up.send_signal(signal.SIGTERM)
            assert up.wait(WAIT_SECONDS) == 130
    finally:
        signal.signal(signal.SIGINT, previous)


def test_for_people_it_says_how_to_use_it(tmp_path: Path) -> None:
    with started("cluster", "up", "--bookies", "3", "--data", str(tmp_path / "data")) as up:
        assert up.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("Ctrl-C"):
            lines.append(up.stdout.readline())
            assert lines[-1], lines
        export = next(line for line in lines if "export QUIRE_STORE=" in line)
        store = export.strip().partition("=")[2]
        done = quire("log", "append", "greetings", "hello", store=store)
        assert done.code == 0, done.err
        up.send_signal(signal.SIGINT)
        assert up.wait(WAIT_SECONDS) == 130


def test_a_temporary_cluster_leaves_nothing() -> None:
    with started("cluster", "up", "--bookies", "1", "--temporary", "--json") as up:
        assert up.stdout is not None
        directory = Path(json.loads(up.stdout.readline())["directory"])
        assert directory.is_dir()
        up.send_signal(signal.SIGINT)
        _, err = up.communicate(timeout=WAIT_SECONDS)
        assert f"{directory} was removed" in err
    assert not directory.exists()


def test_a_bookie_that_dies_is_reported(tmp_path: Path) -> None:
    with started("cluster", "up", "--bookies", "2", "--data", str(tmp_path), "--json") as up:
        assert up.stdout is not None
        assert up.stderr is not None
        pid = json.loads(up.stdout.readline())["bookies"][1]["pid"]
        os.kill(pid, signal.SIGKILL)
        assert "bookie 1 is gone" in up.stderr.readline()


def test_a_second_cluster_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    with started("cluster", "up", "--bookies", "1", "--data", str(tmp_path), "--json") as up:
        assert up.stdout is not None
        assert up.stdout.readline()
        for lock in tmp_path.rglob("LOCK"):
            lock.unlink()
        done = quire("cluster", "up", "--bookies", "1", "--data", str(tmp_path))
        assert done.code == 9
        assert f"in use by another local cluster (pid {up.pid})" in done.err
        assert len(quire("bookie", "list", "--json", store=str(tmp_path)).out.splitlines()) == 1
        assert "Stopped" not in done.err


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    beneath = tmp_path / "file" / "data"
    done = quire("cluster", "up", "--data", str(beneath))
    assert (done.code, done.err) == (2, f"quire: {beneath} cannot be used: Not a directory\n")
    done = quire("bench", "--data", str(beneath))
    assert (done.code, done.err) == (1, f"quire: [Errno 20] Not a directory: '{beneath}'\n")


def test_a_store_beside_the_directory_is_found_by_its_name_and_by_the_next_start(
    tmp_path: Path,
) -> None:
    data, metadata = tmp_path / "data", f"sqlite://{tmp_path / 'elsewhere.db'}"
    up = ("cluster", "up", "--bookies", "1", "--data", str(data), "--json")
    for options in (("--metadata", metadata), ()):
        with started(*up, *options) as running:
            assert running.stdout is not None
            line = running.stdout.readline()
            assert line, running.communicate()[1]
            assert json.loads(line)["store"] == metadata
            status = quire("cluster", "status", "--json", store=str(data)).json[0]
            assert (status["store"], status["bookies"]) == (metadata, 1)
            running.send_signal(signal.SIGINT)
            assert running.wait(WAIT_SECONDS) == 130
    assert not (data / "metadata.db").exists()
    refused = quire(*up, "--zookeeper")
    assert refused.code == 2
    assert "keeps its metadata in the store that --metadata named" in refused.err
