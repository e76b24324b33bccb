"""Standard streams in whatever state a command finds them: full, closed, of another encoding."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import termios

import pytest

from tests.support.command import SECONDS_MAX, environment

QUIRE = (sys.executable, "-m", "quire")
STORE = ("--store", "memory:")


def run(
    *arguments: str, redirected: str = "", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """Run `quire` from a shell that redirects its streams. Python buffers, as it does for users."""
    known = {name: value for name, value in environment().items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirected}', "sh", *QUIRE, *arguments, *STORE],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**known, **variables},
        timeout=SECONDS_MAX,
    )


PRINTING = [
    ("log", "list"),
    ("election", "watch", "x", "--once"),
    ("config", "show", "--all"),
    ("--help",),
]
"""Lines, a table, and the help."""


@pytest.mark.parametrize(
    ("arguments", "unbuffered"), [*((each, "") for each in PRINTING), (PRINTING[0], "1")]
)
def test_output_that_finds_no_room_is_an_error_that_names_it(
    arguments: tuple[str, ...], unbuffered: str
) -> None:
    done = run(*arguments, redirected="> /dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr.decode()) == (
        1,
        "quire: [Errno 28] No space left on device: 'standard output'\n",
    )


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_output_whose_reader_is_gone_ends_with_the_code_of_that(arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*QUIRE, *arguments, *STORE],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
            env=environment(),
            timeout=SECONDS_MAX,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("redirected", ["2> /dev/full", "2>&-"])
def test_the_exit_code_stands_when_nobody_can_be_told(redirected: str) -> None:
    assert run("log", "read", "nowhere", redirected=redirected).returncode == 3
    assert run("log", "no-such-command", redirected=redirected).returncode == 2


def test_a_closed_input_disturbs_no_command_that_reads_none() -> None:
    done = run("log", "list", redirected="<&-")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"No logs yet" in done.stdout


def test_output_to_a_closed_stream_does_not_pass_for_written() -> None:
    done = run("log", "list", redirected=">&-")
    assert (done.returncode, done.stderr.decode()) == (
        1,
        "quire: [Errno 9] Bad file descriptor: 'standard output'\n",
    )


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
def test_json_is_json_in_any_encoding(encoding: str) -> None:
    done = run("election", "watch", "€ 日本", "--once", "--json", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout.decode())["election"] == "€ 日本"


def test_a_character_that_cannot_be_printed_is_escaped() -> None:
    done = run("election", "watch", "10 €", "--once", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stdout) == (0, b"10 \\u20ac: no leader\n")


def test_a_record_is_written_whole_by_a_command_that_was_stopped_meanwhile() -> None:
    """Ctrl-Z and fg, while whoever reads the output is slow."""
    program = (
        "from quire.cli import output, streams; streams.prepare(); "
        "output.write_line(b'x' * 1_000_000); streams.settle()"
    )
    environ = {**environment(), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, env=environ
    ) as process:
        assert process.stdout is not None
        room = fcntl.fcntl(process.stdout, fcntl.F_GETPIPE_SZ)
        while waiting_bytes(process.stdout.fileno()) < room:
            assert process.poll() is None
        process.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        process.send_signal(signal.SIGCONT)
        assert len(process.stdout.read()) == 1_000_001


def waiting_bytes(descriptor: int) -> int:
    found: int = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))[0]
    return found


@pytest.mark.parametrize("what", [("log", "orders"), ("ledger", "7")])
def test_a_question_that_nobody_answers_is_an_error_that_says_so(what: tuple[str, str]) -> None:
    done = run(what[0], "delete", what[1])
    assert (done.returncode, done.stdout) == (2, b"")
    last = done.stderr.decode().splitlines()[-1]
    assert last == "quire: not deleted: cannot prompt (standard input ended); pass --yes"
