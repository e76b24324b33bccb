"""The tests that notes of ablations name: they exist, and those of a full disk fail as they must.

`make ablations` runs each of them without its safeguard.
"""

from __future__ import annotations

import pytest

from quire.errors import QuireError
from tests.sim.ablations.catalog import ABLATIONS
from tests.sim.ablations.directed import ROOT
from tests.sim.ablations.patch import Ablation
from tests.sim.disk import Cut
from tests.storage.entries import test_full_start as full_start

DIRECTED = [each for each in ABLATIONS if each.test]
FULL = [each for each in DIRECTED if each.test.endswith("/test_full_start.py")]


@pytest.mark.parametrize("ablation", DIRECTED, ids=lambda each: each.name)
def test_the_test_of_a_note_exists(ablation: Ablation) -> None:
    assert (ROOT / ablation.test).is_file()


def test_both_safeguards_of_a_full_disk_have_a_test() -> None:
    assert [each.name for each in FULL] == [
        "a spare lets a bookie start on a full disk",
        "a full disk takes no entries that a start cannot write",
    ]


@pytest.mark.parametrize("ablation", FULL, ids=lambda each: each.name)
def test_a_start_on_a_full_disk_needs_its_safeguard(ablation: Ablation) -> None:
    with ablation.removed(), pytest.raises((OSError, QuireError)):
        full_start.test_a_start_on_the_smallest_disk_has_space_for_what_was_taken(Cut.LOSES)
