"""A command in a forked process is the command: streams, exit code, environment, directory, end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import cluster_up, environment, quire
from tests.support.forked import run_forked

pytestmark = pytest.mark.slow
SECONDS = 60.0


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("log", "--help"),
        ("no-such-command",),
        ("--json", "log", "read", "absent"),
        ("--store", "sqlite:///no/such/place.db", "log", "list"),
    ],
)
def test_it_says_what_a_started_process_says(arguments: tuple[str, ...]) -> None:
    started = subprocess.run(
        [sys.executable, "-m", "quire", *arguments],
        capture_output=True,
        text=True,
        env=environment(),
        stdin=subprocess.DEVNULL,
        check=False,
    )
    forked = quire(*arguments)
    assert (forked.code, forked.out) == (started.returncode, started.stdout)
    assert forked.err == started.stderr


def test_environment_and_directory_are_the_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = environment() | {"QUIRE_STORE": "nonsense://of-this-call"}
    assert "nonsense://of-this-call" in run_forked(["log", "list"], named, "", SECONDS).stderr
    assert "nonsense://of-this-call" not in quire("log", "list").err
    (tmp_path / "quire.toml").write_text("[log]\nnonsense = 1\n")
    assert "nonsense" not in quire("log", "list").err
    monkeypatch.chdir(tmp_path)
    assert "'nonsense'" in quire("log", "list").err, "the file of the directory"


def test_it_reads_standard_input(tmp_path: Path) -> None:
    with cluster_up(tmp_path / "data", bookies=3) as cluster:
        text = "".join(f"{number}\n" for number in range(30_000))
        assert quire("log", "append", "orders", store=cluster.store, stdin=text).code == 0
        assert quire("log", "read", "orders", store=cluster.store).out == text
        assert quire("log", "list", store=cluster.store, stdin=text).code == 0, "it reads nothing"


def test_one_that_does_not_end_is_killed(tmp_path: Path) -> None:
    arguments = ["cluster", "up", "--bookies", "1", "--data", str(tmp_path / "data")]
    with pytest.raises(subprocess.TimeoutExpired):
        run_forked([*arguments, "--exit-with-parent"], environment(), "", 0.001)
