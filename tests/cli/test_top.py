"""`quire top`: frames of 80 columns from the console's rows, JSON, and a clean end."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click.testing
import pytest
from rich.console import Console

import quire.metastore
from quire.cli.root import main
from quire.cli.top import BOOKIE_ORDERS, LOG_ORDERS
from quire.cli.top_frame import ROWS_MIN, TopOrders, _shares, fields, frame
from quire.console.looks import BookiePace, ClusterLook
from quire.console.views.bookies import ORDERS as ALL_BOOKIE_ORDERS
from quire.console.views.logs import ORDERS as ALL_LOG_ORDERS
from tests.console import scene

SOON = 30.0


def drawn(look: ClusterLook, lines: int | None = None, width: int = 80) -> list[str]:
    paper = io.StringIO()
    console = Console(file=paper, width=width, highlight=False, markup=False, emoji=False)
    console.print(frame(look, TopOrders(), lines, width))
    return [line.rstrip() for line in paper.getvalue().splitlines()]


def test_a_frame_shows_each_figure_of_a_bookie_and_a_log() -> None:
    pace = BookiePace(0.0004, 0.004, 90.0, 12_345.0, 0.007, 42)
    lines = drawn(scene.with_pace(scene.healthy(3, 1), "b01", pace))
    assert lines[0].startswith("quire top  22:13:20  ok  3 bookies, 1 log, 2 clients")
    (bookie,) = (line for line in lines if line.startswith("b01"))
    for figure in ("up", "50 %", "12,345/s", "7 ms", "42", "1.0"):
        assert figure in bookie
    (log,) = (line for line in lines if line.startswith("log-0000"))
    for figure in ("app1:7", "5,000", "0.5/s", "billing"):
        assert figure in log


def test_the_head_counts_ledgers_in_use_and_json_lists_them() -> None:
    look = scene.used(scene.healthy(3, 1), scene.WRITER, scene.FOLLOWER)
    assert drawn(look)[1] == "1 ledger written, 1 reader"
    users = fields(look, TopOrders())["users"]
    assert [(each["kind"], each["user"], each["ledger"]) for each in users] == [
        ("writes", "10.0.0.7", 1005),
        ("follows", "billing", 1005),
    ]


@pytest.mark.parametrize("trouble", [scene.healthy, lambda: scene.all_troubles(scene.healthy())])
@pytest.mark.parametrize("width", [80, 40, 200])
def test_a_frame_keeps_to_its_space(trouble: Callable[[], ClusterLook], width: int) -> None:
    lines = drawn(trouble(), 24, width)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= width
    assert any(line.startswith("BOOKIE") for line in lines)
    assert any(line.startswith("LOG") for line in lines)


def test_a_low_terminal_says_how_much_more_there_is() -> None:
    lines = drawn(scene.healthy(50, 12), 24)
    assert len(lines) <= 24
    bookies = sum(line.startswith("b") for line in lines)
    logs = sum(line.startswith("log-") for line in lines)
    assert f"and {50 - bookies} more bookies" in lines
    assert f"and {12 - logs} more logs" in lines
    assert bookies >= ROWS_MIN
    assert logs >= ROWS_MIN


@pytest.mark.parametrize("lines", range(1, 60))
@pytest.mark.parametrize(("bookies", "logs"), [(0, 0), (3, 0), (3, 5), (50, 100), (2, 100)])
def test_no_line_is_wasted(lines: int, bookies: int, logs: int) -> None:
    shown, some = _shares(bookies, logs, lines)
    assert min(bookies, ROWS_MIN) <= shown <= bookies
    assert min(logs, ROWS_MIN) <= some <= logs
    space = lines - 9
    if space >= 2 * ROWS_MIN:
        assert shown + some == min(space, bookies + logs)


def test_a_name_cannot_steer_the_terminal() -> None:
    look = scene.healthy(1, 1)
    (name,) = look.logs
    evil = replace(look.logs[name].view, name="a\x1b[2Jb\nc")
    look = replace(
        look, log_names=[evil.name], logs={evil.name: replace(look.logs[name], view=evil)}
    )
    assert not any("\x1b" in line for line in drawn(look))


def test_a_cluster_that_does_not_answer_says_so() -> None:
    lines = drawn(ClusterLook(0, "zk://away", trouble="metadata store zk://away is unavailable"))
    assert "critical" in lines[0]
    assert lines[1] == "metadata store zk://away is unavailable"


def test_the_orders_are_those_of_the_console() -> None:
    assert sorted(ALL_BOOKIE_ORDERS) == sorted(BOOKIE_ORDERS)
    assert sorted(ALL_LOG_ORDERS) == sorted(LOG_ORDERS)


def test_a_look_as_json_has_the_same_rows() -> None:
    found = json.loads(json.dumps(fields(scene.all_troubles(scene.healthy()), TopOrders())))
    assert found["health"] == "warning"
    assert found["reasons"]
    assert {"bookie", "state", "disks", "entries_per_second", "journal_p99", "waiting"} <= set(
        found["bookies"][0]
    )
    assert {"name", "leader", "end", "per_second", "slowest", "lag"} <= set(found["logs"][0])
    assert found["log_count"] == len(found["logs"])


@pytest.fixture
def store(tmp_path: Path) -> str:
    uri = f"sqlite:///{tmp_path}/metadata.db"

    async def make() -> None:
        await (await quire.metastore.create_store(uri)).close()

    asyncio.run(make())
    return uri


def test_once_prints_one_look(store: str) -> None:
    call = ["--store", store, "top", "--once", "--every", "1ms"]
    done = click.testing.CliRunner().invoke(main, [*call, "--json"])
    assert done.exit_code == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["bookies"] == []
    text = click.testing.CliRunner().invoke(main, call)
    assert text.stdout.startswith("quire top")


@pytest.mark.real_time
async def test_ctrl_c_gives_the_terminal_back(store: str) -> None:
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quire", "--store", store, "top", "--every", "10ms"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"},
    )
    os.close(theirs)
    said = b""

    def read() -> bytes:
        try:
            return os.read(ours, 65536)
        except OSError:  # the process has ended
            return b""

    try:
        async with asyncio.timeout(SOON):
            while b"BOOKIE" not in said:
                said += (part := await asyncio.to_thread(read))
                assert part, said
            process.send_signal(signal.SIGINT)
            while part := await asyncio.to_thread(read):
                said += part
            assert await process.wait() == 130
    finally:
        os.close(ours)
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert said.startswith(b"\x1b[?1049h")
    assert b"\x1b[?1049l" in said[said.rindex(b"BOOKIE") :]
    assert b"\x1b[?25h" in said[said.rindex(b"BOOKIE") :], "the cursor is shown again"
    assert b"Traceback" not in said
