"""Errors become exit codes by family, with one line and no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from quire import errors
from quire.cli.exits import BROKEN_PIPE, EXIT_CODES, INTERRUPTED, RootGroup, exit_code
from quire.cli.root import main
from quire.errors import QuireError
from quire.storage.server import EXIT_FATAL
from tests.support.command import quire


def families() -> list[type[QuireError]]:
    """The classes right below the root; `SparkFailedError` is "another error", code 1."""
    found = {*QuireError.__subclasses__()} - {errors.SparkFailedError}
    return sorted(found, key=lambda family: family.__name__)


@pytest.mark.parametrize("family", families())
def test_every_family_has_a_code(family: type[QuireError]) -> None:
    code = exit_code(family.__new__(family))
    assert 2 <= code <= 9


def test_families_are_told_apart() -> None:
    codes = {family: exit_code(family.__new__(family)) for family in families()}
    assert codes.pop(errors.SessionExpiredError) == codes[errors.LeadershipLostError]
    assert len(set(codes.values())) == len(codes)


NO_LEDGER = "quire: ledger 7 does not exist; `quire ledger list` shows the ledgers\n"


def invoke(raised: BaseException) -> tuple[int, str, str]:
    @click.group(cls=RootGroup)
    def root() -> None:
        """Test."""

    @root.command()
    def fail() -> None:
        raise raised

    result = CliRunner().invoke(root, ["fail"])
    return result.exit_code, result.stdout, result.stderr


def test_an_error_is_one_line_on_stderr() -> None:
    code, out, err = invoke(errors.NoSuchLedgerError(7))
    assert (code, out, err) == (3, "", NO_LEDGER)


def test_ctrl_c_is_130_and_silent() -> None:
    code, out, err = invoke(KeyboardInterrupt())
    assert (code, out, err.strip()) == (INTERRUPTED, "", "")


def test_a_broken_pipe_is_141_and_silent() -> None:
    assert invoke(BrokenPipeError()) == (BROKEN_PIPE, "", "")


def test_the_library_does_not_speak_beside_the_one_line() -> None:
    program = """
import logging, click
from quire.cli.exits import RootGroup
from quire.errors import NoSuchLedgerError

@click.group(cls=RootGroup)
def root(): pass

@root.command()
def fail():
    logging.getLogger("quire.ledger.writer").warning("by the way")
    raise NoSuchLedgerError(7)

root(["fail"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, NO_LEDGER)


def test_every_code_is_documented() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "cli.md").read_text(encoding="utf-8")
    for code in (0, *(code for _, code in EXIT_CODES), EXIT_FATAL, INTERRUPTED, BROKEN_PIPE):
        assert f"\n| {code} | " in page, code


def test_wrong_usage_is_2() -> None:
    code, _, err = invoke(click.UsageError("no such thing"))
    assert code == 2
    assert "no such thing" in err


def test_a_command_that_a_signal_ends_is_told_as_a_shell_tells_it() -> None:
    command = ("election", "lead", "x", "--store", "memory:", "--", "sh", "-c", "kill -KILL $$")
    assert quire(*command).code == 137


@pytest.mark.parametrize("seconds", ["nan", "inf"])
def test_a_benchmark_without_end_is_wrong_usage(seconds: str) -> None:
    done = quire("bench", "--seconds", seconds)
    assert done.code == 2
    assert f"'{seconds}' is not a duration" in done.err


@pytest.mark.parametrize("job", ["replay", "offload"])
def test_a_password_that_spark_cannot_carry_is_refused(job: str) -> None:
    pytest.importorskip("pyspark")
    command = ["spark", job, "orders", "--to", "elsewhere", "--store", "memory:"]
    result = CliRunner().invoke(main, command, env={"QUIRE_PASSWORD": "\udcff"})
    assert (result.exit_code, result.stderr) == (
        2,
        "quire: the password is not UTF-8: Spark's options are text\n",
    )


@pytest.mark.parametrize(
    "command",
    [
        ("log", "list"),
        ("log", "append", "orders", "x"),
        ("bookie", "list"),
        ("ledger", "list"),
        ("dump", "/quire"),
        ("election", "watch", "dice", "--once"),
        ("metadata", "backup", "file"),
        ("metadata", "adopt"),
        ("metadata", "check"),
    ],
)
def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "typo.db"
    result = CliRunner().invoke(main, [*command, "--store", f"sqlite://{path}"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"no metadata store at {path}" in result.stderr
    assert "quire cluster up" in result.stderr
    assert not path.exists()


def test_an_election_needs_no_cluster(tmp_path: Path) -> None:
    store = ["--store", f"sqlite://{tmp_path / 'new.db'}"]
    led = CliRunner().invoke(main, ["election", "lead", "dice", *store, "--", "true"])
    assert led.exit_code == 0
    watched = CliRunner().invoke(main, ["election", "watch", "dice", "--once", *store])
    assert (watched.exit_code, watched.stdout) == (0, "dice: no leader\n")


def test_an_ensemble_that_no_cluster_can_have_is_refused_before_any_connection() -> None:
    asked = [
        "log",
        "append",
        "orders",
        "x",
        "--ensemble",
        str(10**18),
        "--store",
        "zk://nowhere.invalid/q",
    ]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == exit_code(errors.InvalidReplicationError(10**18, 3, 2, 1024))
    assert f"replication {10**18}/3/2 is not 1024 ≥ ensemble" in result.stderr
