"""What is asked of TLC, and how its answers are read. TLC itself runs in `make tlc`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spec import bounds, log_bounds, page_bounds
from tests.spec.checker import Outcome
from tests.spec.ledger import Bounds
from tests.spec.tlc import (
    SPEC,
    NoVerdictError,
    Verdict,
    comparisons,
    ledger_task,
    log_task,
    main,
    outcome,
    page_task,
)

HOLDS = """TLC2 Version 2.15
Model checking completed. No error has been found.
27950 states generated, 5432 distinct states found, 0 states left on queue.
The depth of the complete state graph search is 21.
"""
BROKEN = """Error: Invariant L1 is violated.
Error: The behavior up to this point is:
State 1: <Initial predicate>
/\\ w = 1
State 2: <Send line 5, col 3 of module Ledger>
/\\ w = 2
62 states generated, 31 distinct states found, 8 states left on queue.
The depth of the complete state graph search is 2.
"""
WRONG = """Error: TLC threw an unexpected exception.
62 states generated, 31 distinct states found, 8 states left on queue.
The depth of the complete state graph search is 2.
"""


def test_a_promise_that_holds_is_read() -> None:
    assert outcome(HOLDS) == Outcome(None, 21, 27_950, 5_432)


def test_a_broken_promise_is_read_by_its_name() -> None:
    assert outcome(BROKEN) == Outcome("L1", 2, 62, 31)


@pytest.mark.parametrize("text", ["", "*** Parse Error ***", WRONG])
def test_an_end_without_a_verdict_is_an_error(text: str) -> None:
    with pytest.raises(NoVerdictError):
        outcome(text)


HELD = Outcome(None, 21, 27_950, 5_432)
LOST = Outcome("L1", 13, 1_999, 763)


@pytest.mark.parametrize(
    ("found", "expected", "is_same"),
    [
        (HELD, HELD, True),
        (HELD._replace(distinct=5_431), HELD, False),
        (HELD._replace(generated=27_951), HELD, False),
        (HELD._replace(depth=20), HELD, False),
        (LOST, HELD, False),
        (LOST._replace(generated=2_000, distinct=800), LOST, True),
        (LOST._replace(broken="L3"), LOST, False),
        (LOST._replace(depth=14), LOST, False),
        (HELD, LOST, False),
    ],
)
def test_a_row_is_the_same_by_every_number(
    found: Outcome, expected: Outcome, is_same: bool
) -> None:
    verdict = Verdict("a row", found, expected, 1.0)
    assert verdict.is_same is is_same
    assert ("DIFFERS" in str(verdict)) is not is_same


def test_every_row_of_every_table_is_compared() -> None:
    tables = (bounds, log_bounds, page_bounds)
    rows = sum(len(each.PASSING) + len(each.THOROUGH) + len(each.REMOVED) for each in tables)
    assert len(comparisons()) == rows + len(bounds.REDUNDANT)
    assert [row for row, _, _ in comparisons(["EmptiedFirst"])] == ["pages: without EmptiedFirst"]


@pytest.mark.parametrize(
    "task",
    [ledger_task(Bounds()), log_task(log_bounds.ROLLED), page_task(page_bounds.SMALL)],
    ids=lambda task: task.module,
)
def test_every_constant_of_a_module_has_a_value(task: tuple[str, str]) -> None:
    module, text = task
    source = (SPEC / f"{module}.tla").read_text(encoding="utf-8")
    declared = source.partition("CONSTANTS")[2].partition("VARIABLES")[0]
    lines = (line.partition("\\*")[0] for line in declared.splitlines())
    names = {each.strip() for line in lines for each in line.split(",") if each.strip()}
    given = {line.split(" = ")[0].strip() for line in text.splitlines() if " = " in line}
    assert given == names


def test_a_missing_jar_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--jar", str(tmp_path / "none.jar")])
    assert ended.value.code == 2
    assert "none.jar is not a file: `make tlc` installs one" in capsys.readouterr().err
