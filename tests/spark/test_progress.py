"""Admission: a limit is shared fairly, nothing is skipped, and a new log has a beginning."""

from __future__ import annotations

from typing import Any

import pytest

from quire.errors import ConfigurationError
from quire.spark.progress import Place, Progress, admit, from_json, start_of, to_json


def places(**offsets: int) -> Progress:
    return {log: Place("id", 0, offset) for log, offset in offsets.items()}


@pytest.mark.parametrize(
    ("ends", "limit", "expected"),
    [
        (places(a=10, b=100), None, places(a=10, b=100)),
        (places(a=10, b=100), 110, places(a=10, b=100)),
        (places(a=10, b=100), 50, places(a=10, b=40)),
        (places(a=90, b=100, c=0), 50, places(a=25, b=25, c=0)),
        (places(a=90), 1, places(a=1)),
    ],
)
def test_a_limit_is_shared_fairly(ends: Progress, limit: int | None, expected: Progress) -> None:
    assert admit(places(a=0, b=0), ends, limit) == expected


def test_a_limit_counts_from_where_the_batch_begins() -> None:
    ends = {"a": Place("id", 0, 70), "new": Place("id", 30, 60)}
    granted = admit(places(a=60), ends, 20)
    assert granted == {"a": Place("id", 0, 70), "new": Place("id", 30, 40)}
    assert start_of(places(a=60), "new", granted["new"]) == 30


def test_a_first_batch_begins_where_the_query_wrote_down_that_it_began() -> None:
    """Spark asks again after a crash, and the log's beginning may be another one by then."""
    asked_again = {"a": Place("id", 40, 40)}
    assert start_of(asked_again, "a", Place("id", 0, 100)) == 0
    assert start_of({"a": Place("id", 0, 100)}, "a", Place("id", 0, 120)) == 100


def test_every_record_is_admitted_in_the_end() -> None:
    at, ends, batches = places(a=0, b=3, c=5), places(a=17, b=3, c=1000), 0
    while at != ends:
        before = sum(place.offset for place in at.values())
        at = admit(at, ends, 7)
        assert 0 < sum(place.offset for place in at.values()) - before <= 7
        batches += 1
    assert batches == -(-(17 + 995) // 7)


def test_places_survive_the_checkpoint() -> None:
    progress = {"a/b": Place("x", 3, 9), "ü": Place("y", 0, 0)}
    assert from_json(to_json(progress)) == progress


@pytest.mark.parametrize("told", [{"orders": {"0": 1200}}, {"orders": 1200}, 7])
def test_a_checkpoint_of_another_source_is_told(told: Any) -> None:
    """A query that read from Kafka before keeps its checkpoint."""
    with pytest.raises(ConfigurationError, match=r"checkpointLocation.*(1200|7).*format 'quire'"):
        from_json(told)
