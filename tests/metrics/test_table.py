"""The table of metrics: it is the page, and its rows are as Prometheus wants them."""

from __future__ import annotations

import re

from quire.metrics.table import BY_NAME, METRICS, Kind
from tests.support.metrics_page import PAGE, renewed


def test_every_metric_is_on_the_page_and_every_metric_of_the_page_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == renewed(text), "run `make metrics`"


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
