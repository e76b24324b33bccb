"""Every anomaly is noticed where it was planted, and none in an honest history."""

from __future__ import annotations

import pytest

from tests.judges.anomalies import CHECKS, find_anomalies
from tests.judges.planted import HONEST, PLANTED, Planted, Scene


def test_an_honest_history_has_none() -> None:
    assert find_anomalies(HONEST) == []


@pytest.mark.parametrize("planted", [pytest.param(each, id=name) for name, each in PLANTED.items()])
def test_what_was_planted_is_found(planted: Planted) -> None:
    assert planted.anomaly in {each.name for each in find_anomalies(planted.history)}


def test_each_anomaly_is_planted() -> None:
    assert {each.anomaly for each in PLANTED.values()} == set(CHECKS)


def test_what_was_trimmed_is_not_lost() -> None:
    scene = Scene()
    scene.append("a", offset=0)
    scene.append("b", offset=1)
    scene.read("last", 1, "b")
    assert [each.name for each in find_anomalies(scene.history)] == ["lost write"]
    scene.trim(1)
    assert find_anomalies(scene.history) == []
