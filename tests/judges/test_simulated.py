"""Simulated runs as histories: no anomaly, and every kind of operation is in them."""

from __future__ import annotations

import pytest

from quire.log.records.position import BEGINNING, Appended, Position
from tests.judges.anomalies import find_anomalies
from tests.judges.history import Kind, Outcome
from tests.judges.s2 import convert
from tests.judges.settle import settle
from tests.judges.simulated import WORKLOADS, operations, simulate
from tests.sim.history import LogHistory, Seen
from tests.support.seeds import first_of

SEEDS = range(5, 14)
"""As many as cost ten seconds together; `make judges` judges a thousand runs."""


@pytest.mark.parametrize(("trimmed_to", "lost"), [(3, []), (2, ["unseen"])])
def test_records_that_were_trimmed_before_a_reader_met_them_are_not_lost(
    trimmed_to: int, lost: list[str]
) -> None:
    """The log is empty in the end, and a reader met one record of three (log seed 189)."""
    history = LogHistory()
    places = [Position(1, entry, 0) for entry in range(3)]
    for offset, place in enumerate(places):
        append = history.offer("leader", 1, (b"%d" % offset,))
        history.confirm(append, [Appended(place, offset)])
    history.read("reader", BEGINNING).take(Seen(places[0], 0, 1, b"0"))
    history.give_up(Position(1, trimmed_to, 0))
    history.scan("last")
    assert [each.name for each in find_anomalies(list(operations(history)))] == lost


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("seed", first_of(2, SEEDS))
def test_a_run_is_a_history(seed: int, workload: str) -> None:
    run = simulate(seed, workload)
    assert run.result.verdict == "ok", run.result.error
    appends = [each for each in run.history if each.kind is Kind.APPEND]
    assert sum(each.is_ok for each in appends) >= run.result.acks > 0
    assert {each.kind for each in run.history} >= {Kind.APPEND, Kind.READ, Kind.END}
    assert all(each.returned is None for each in appends if each.outcome is Outcome.UNKNOWN)
    assert find_anomalies(run.history) == []
    settled = settle(run.history)
    assert settled.wrong == []
    fed = convert(run.history, settled)
    assert fed.files or "offset of an acknowledged append is not known" in fed.refusal
