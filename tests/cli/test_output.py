"""What tables do with names that are hard to print."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios

import pytest

from quire.cli.election import _print_leader
from quire.cli.output import print_fields, print_table
from quire.cli.settings import Settings
from quire.election.election import Leader
from tests.support.command import environment


def test_a_row_is_a_line_whatever_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("log", "epoch"), [("tab\tline\n\x1b[31m日本 ü", 3)], empty="")
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split() == ["log", "epoch"]
    assert row.split() == [r"tab\tline\n\x1b[31m日本", "ü", "3"]


LONG = ("name" * 64, "value " * 60)


@pytest.mark.parametrize("variables", [{}, {"FORCE_COLOR": "1"}, {"COLUMNS": "40"}])
def test_nothing_is_cut_in_a_pipe(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    print_table(("log", "state", "epoch"), [(*LONG, 3)], empty="")
    print_fields({"settings": LONG[1]})
    printed = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out)
    _, row, fields = printed.splitlines()
    assert row.split() == [LONG[0], *LONG[1].split(), "3"]
    assert fields.split() == ["settings", *LONG[1].split()]


def test_nothing_is_cut_at_a_narrow_terminal() -> None:
    program = (
        "from quire.cli.output import print_table; "
        "rows = [('b' * 32, '127.0.0.1:41000', 7)]; "
        "print_table(('bookie', 'address', 'ledgers'), rows, empty='')"
    )
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    command = [sys.executable, "-c", program]
    subprocess.run(command, stdout=theirs, env=environment(), check=True)
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        _, row = terminal.read(4096).decode().splitlines()
    assert row.split() == ["b" * 32, "127.0.0.1:41000", "7"]


def test_a_leader_is_a_line_whatever_it_calls_itself(capsys: pytest.CaptureFixture[str]) -> None:
    _print_leader(Settings(), "dice", Leader("eve\x1b[2J\nmallory", 3))
    assert capsys.readouterr().out == "dice: eve\\x1b[2J\\nmallory leads, epoch 3\n"
