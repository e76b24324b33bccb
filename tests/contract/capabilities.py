"""Contract suites over subjects that differ in what they can do.

A subject names its capabilities. A test names those it needs (`needs`), or the one whose absence it
examines (`lacks`); it runs over the subjects that fit. So one suite holds for quire's own
implementations and for those of other systems, and nothing is skipped:

  - a test that no subject runs fails,
  - a capability that a subject lacks has a `lacks` test, or it could be ignored in silence.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., object])

NEEDS = "_contract_needs"
LACKS = "_contract_lacks"


def needs(*capabilities: enum.Enum) -> Callable[[Test], Test]:
    """Run a test over the subjects with all of some capabilities."""
    return lambda test: _mark(test, NEEDS, capabilities)


def lacks(*capabilities: enum.Enum) -> Callable[[Test], Test]:
    """Run a test over the subjects with none of some capabilities."""
    return lambda test: _mark(test, LACKS, capabilities)


def _mark(test: Test, name: str, capabilities: Collection[enum.Enum]) -> Test:
    setattr(test, name, frozenset(capabilities))
    return test


def fitting(
    test: Callable[..., object], subjects: Mapping[str, Collection[enum.Enum]]
) -> list[str]:
    """Return the names of the subjects that a test runs over.

    Args:
        test: the test.
        subjects: the capabilities of every subject by name.

    Raises:
        pytest.fail.Exception: no subject fits.
    """
    needed: frozenset[enum.Enum] = getattr(test, NEEDS, frozenset())
    absent: frozenset[enum.Enum] = getattr(test, LACKS, frozenset())
    found = [
        name
        for name, capabilities in sorted(subjects.items())
        if needed <= set(capabilities) and not absent & set(capabilities)
    ]
    if not found:
        pytest.fail(f"no subject of the suite runs {test.__name__}", pytrace=False)
    return found


def unexamined(
    tests: Collection[Callable[..., object]],
    subjects: Mapping[str, Collection[enum.Enum]],
    capabilities: type[enum.Enum],
) -> list[str]:
    """Return the capabilities that some subject lacks though no test examines that."""
    examined = {each for test in tests for each in getattr(test, LACKS, ())}
    return sorted(
        each.name
        for each in capabilities
        if each not in examined and any(each not in has for has in subjects.values())
    )
