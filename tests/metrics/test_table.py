"""The table of metrics: it is the page, and its rows are as Prometheus wants them."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from quire.metrics.table import BY_NAME, METRICS, Kind
from quire.storage.engine import ReplayCounts
from quire.storage.entries.read_cache import ReadCounts
from quire.storage.maintenance.compaction import CompactionCounts
from quire.storage.maintenance.disowning import DisownCounts
from quire.storage.maintenance.garbage import CollectionCounts
from quire.storage.maintenance.pace import PaceCounts
from quire.storage.maintenance.scrub import ScrubCounts
from quire.storage.maintenance.self_repair import MendCounts
from tests.support.metrics_page import PAGE, renewed

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def test_every_metric_is_on_the_page_and_every_metric_of_the_page_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == renewed(text), "run `make metrics`"


@pytest.mark.parametrize(
    ("work", "counts"),
    [
        ("collection", CollectionCounts),
        ("disowning", DisownCounts),
        ("compaction", CompactionCounts),
        ("scrub", ScrubCounts),
        ("mending", MendCounts),
        ("pace", PaceCounts),
        ("replay", ReplayCounts),
        ("read", ReadCounts),
    ],
)
def test_each_counter_of_a_bookie_has_a_row(work: str, counts: type[DataclassInstance]) -> None:
    """A counter without a row is not shown, and nothing else would say so."""
    names = {f"quire_bookie_{work}_{each.name}" for each in fields(counts)}
    missing = {each for each in names if each not in BY_NAME and f"{each}_total" not in BY_NAME}
    assert not missing


def test_no_name_comes_twice() -> None:
    assert len(BY_NAME) == len(METRICS)


def test_names_say_their_kind_and_unit() -> None:
    for each in METRICS:
        assert re.fullmatch(r"quire_[a-z0-9_]+", each.name), each.name
        assert each.name.endswith("_total") == (each.kind is Kind.COUNTER), each.name
        assert each.name.endswith("_info") == (each.kind is Kind.INFO), each.name
        if each.kind is Kind.HISTOGRAM:
            assert each.name.endswith("_seconds"), each.name


def test_meanings_fit_a_table() -> None:
    for each in METRICS:
        assert each.meaning, each.name
        assert not each.meaning.endswith("."), each.name
        assert "|" not in each.meaning, each.name
