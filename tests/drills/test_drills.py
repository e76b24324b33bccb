"""The program that plays drills: it tells what failed, and goes on. The drills need minutes."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from functools import partial
from pathlib import Path

import pytest

from tests.drills.__main__ import _played, play, promise
from tests.drills.drills import DRILLS, Drill, closed
from tests.drills.program_drills import looked, probed
from tests.drills.scene import Proof, check
from tests.drills.store_drills import deposed, restored

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "drills.md").read_text(encoding="utf-8")


async def good() -> Proof:
    """Something holds."""
    return Proof("it held", 7)


async def bad() -> Proof:
    """Something else holds."""
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0))
        check(False, "it did not hold")
    return Proof("never", 0)


async def broken() -> Proof:
    """A drill with a mistake in it."""
    raise ValueError("a mistake")


PLAYED = {"bad": bad, "good": good, "broken": broken}


def test_a_drill_that_fails_is_told_and_the_others_are_played(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert play(list(PLAYED), PLAYED, as_json=True) == 2
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["drill"], each["outcome"]) for each in lines] == [
        ("bad", "FAILED"),
        ("good", "ok"),
        ("broken", "FAILED"),
    ]
    assert lines[0]["found"] == "DrillError: it did not hold"
    assert (lines[1]["found"], lines[1]["bytes"]) == ("it held", 7)


def test_people_read_what_was_proven(capsys: pytest.CaptureFixture[str]) -> None:
    assert play(["good"], PLAYED, as_json=False) == 0
    out = capsys.readouterr().out
    assert "Something holds." in out
    assert "it held" in out


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_ledgers_that_are_closed_without_a_fault_are_not_short() -> None:
    """The drill `closed`, smaller. `lost` is tests/cluster/test_autorecovery.py."""
    assert "none of 60 ledgers is short" in asyncio.run(closed(60)).text


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "drill",
    [restored, deposed, probed, partial(looked, 30)],
    ids=["restored", "deposed", "probed", "looked"],
)
def test_a_cheap_drill_is_played(drill: Drill) -> None:
    assert asyncio.run(_played(drill)).text


CHECK = re.compile(r"^\| (\d+) \| [^|]+ \| (.+) \|$", re.MULTILINE)


def test_every_check_has_a_command_that_exists() -> None:
    _, _, rest = PAGE.partition("<!-- checks -->")
    rows = CHECK.findall(rest.partition("<!-- end of checks -->")[0])
    assert [int(number) for number, _ in rows] == list(range(1, 26))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    played = set()
    for _, cell in rows:
        commands = re.findall(r"`([^`]+)`", cell)
        assert commands
        for program, target, *more in map(shlex.split, commands):
            if program == "pytest":
                assert all((ROOT / each).exists() for each in (target, *more)), cell
                continue
            assert (program, target in targets) == ("make", True), cell
            names = [each.removeprefix("NAMES=") for each in more if each.startswith("NAMES=")]
            played |= {name for each in names for name in each.split()}
            assert target != "drills" or names, "a check names its drill"
    assert played == set(DRILLS), "every drill answers a check"


def test_the_page_lists_every_drill_with_its_promise() -> None:
    for name, drill in DRILLS.items():
        assert f"| `{name}` | {promise(drill)} |" in PAGE
