"""Events of several processes are merged without a clock, and a wrong step is refused as well."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tests.sim.ablations.catalog import ABLATIONS
from tests.sim.run import run_seed, workload_of
from tests.spec.events import Event, Kind
from tests.spec.merge import Line, merge
from tests.spec.test_trace import SHAPE, WRONG, Trace, changed, recovered
from tests.spec.trace import judge
from tests.support.seeds import seeds

RECORD = frozenset({Kind.OPENED, Kind.RECOVERING, Kind.CLOSED, Kind.DELETED})
WRITER = frozenset({Kind.CONFIRMED, Kind.FROZEN, Kind.THAWED})
Streams = dict[str, Sequence[Line]]

LOOSE = {
    "a denial before the fence": "a bookie that the closed record does not name may deny (B9)",
}
"""Wrong steps that are wrong only by the order of events of two processes."""


def owner(event: Event) -> str:
    """The process that tells of an event."""
    if event.kind in RECORD:
        return "record"
    return event.token or ("writer" if event.kind in WRITER else event.bookie or "reader")


def split(trace: Sequence[Event], rng: random.Random) -> Streams:
    """The same events, by process; the order of the processes is chance."""
    streams: dict[str, list[Line]] = {}
    for number, event in enumerate(trace):
        streams.setdefault(owner(event), []).append(Line(str(number), event))
    prefixes = random.Random(rng.random()).sample(range(len(streams)), len(streams))
    return {
        f"{prefix} {name}": lines
        for prefix, (name, lines) in zip(prefixes, streams.items(), strict=True)
    }


@pytest.mark.parametrize("trace", [recovered(), changed(), []], ids=["recovered", "changed", ""])
@pytest.mark.parametrize("seed", range(10))
def test_a_sound_trace_is_accepted_in_any_order_of_its_processes(trace: Trace, seed: int) -> None:
    assert merge(SHAPE, split(trace, random.Random(seed))) == []


@pytest.mark.parametrize("name", WRONG)
def test_one_wrong_step_is_refused_unless_it_is_one_of_order(name: str) -> None:
    make, spoil, _ = WRONG[name]
    verdicts = {bool(merge(SHAPE, split(spoil(make()), random.Random(seed)))) for seed in range(10)}
    assert verdicts == {name not in LOOSE}


def test_a_fragment_that_was_replaced_was_named_all_the_same() -> None:
    """Found by the simulator (exile, seed 19): a fragment without a confirmed entry is replaced."""
    other = ((0, ("b3", "b1", "b2")),)
    trace = [
        changed()[0],
        Event(Kind.FROZEN, "", 0),
        Event(Kind.OPENED, fragments=other, version=2),
        Event(Kind.THAWED, fragments=other),
        Event(Kind.FROZEN, "", 0),
        Event(Kind.OPENED, fragments=changed()[0].fragments, version=3),
        Event(Kind.THAWED, fragments=changed()[0].fragments),
    ]
    assert judge(SHAPE, trace) is None
    assert merge(SHAPE, split(trace, random.Random(1))) == []


def test_who_is_stuck_says_where_and_for_what() -> None:
    trace = [each for each in recovered() if (each.kind, each.bookie) != (Kind.DENIED, "b0")]
    waiting = merge(SHAPE, split(trace, random.Random(1)))
    (recovery,) = (each for each in waiting if each.process.endswith("r1"))
    assert recovery.line.event.kind is Kind.COUNTED
    assert "b0 did not deny 3" in str(recovery)


@pytest.mark.parametrize("seed", seeds(20))
def test_a_simulated_run_is_accepted_process_by_process(seed: int) -> None:
    result = run_seed(seed, workload_of(seed), events=True)
    assert bool(result.traces) == (result.workload != "pages"), "manifests alone have no ledgers"
    for shape, events in result.traces.values():
        assert merge(shape, split(events, random.Random(seed))) == []


@pytest.mark.parametrize("name", ["recovery reads fence", "absence needs Qw − Qa + 1 negatives"])
def test_a_simulated_run_without_a_safeguard_is_refused_process_by_process(name: str) -> None:
    ablation = next(each for each in ABLATIONS if each.name == name)
    with ablation.removed():
        for seed in range(40):
            result = run_seed(seed, "ledger", adjust=ablation.adjust, events=True)
            for shape, events in result.traces.values():
                if merge(shape, split(events, random.Random(seed))):
                    assert judge(shape, events) is not None
                    return
    pytest.fail("no run was refused")
