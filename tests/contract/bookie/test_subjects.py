"""The suite itself: nothing that a subject may lack goes without a test."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from tests.contract.bookie.capabilities import EVERYTHING, BookieCapability
from tests.contract.bookie.subjects import CAPABILITIES
from tests.contract.capabilities import fitting, lacks, needs, unexamined


def suite() -> list[Callable[..., object]]:
    modules = (
        import_module(f"{__package__}.{path.stem}")
        for path in sorted(Path(__file__).parent.glob("test_*.py"))
    )
    return [
        each for module in modules for _, each in inspect.getmembers(module, inspect.isfunction)
    ]


def test_every_capability_that_may_be_missing_is_examined() -> None:
    assert unexamined(suite(), CAPABILITIES, BookieCapability) == []


def test_a_test_that_no_subject_runs_fails() -> None:
    subjects = {"all": EVERYTHING}

    @lacks(BookieCapability.KEEPS_IDS)
    def homeless() -> None:
        raise AssertionError

    @needs(BookieCapability.KEEPS_IDS)
    def at_home() -> None:
        raise AssertionError

    assert fitting(at_home, subjects) == ["all"]
    with pytest.raises(pytest.fail.Exception, match="no subject of the suite runs homeless"):
        fitting(homeless, subjects)
    assert unexamined([at_home], {"none": frozenset()}, BookieCapability) == sorted(
        each.name for each in BookieCapability
    )
