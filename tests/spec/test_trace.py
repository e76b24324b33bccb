"""A sound trace is a behaviour of the specification; of a wrong step the rule is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.spec.trace import Event, Fragments, Kind, Shape, judge, ranges

SHAPE = Shape(3, 3, 2)
FIRST: Fragments = ((0, ("b0", "b1", "b2")),)
SECOND: Fragments = (*FIRST, (2, ("b0", "b1", "b3")))
Trace = list[Event]


def recovered() -> Trace:
    """Three entries, one of them on a single bookie; a recovery that replaces b2 and ends at 2."""
    return [
        Event(Kind.OPENED, fragments=FIRST),
        Event(Kind.ADDED, "b0", 0, 2),
        Event(Kind.ADDED, "b1", 0, 1),
        Event(Kind.CONFIRMED, "", 1, 1),
        Event(Kind.RECOVERING, fragments=FIRST),
        Event(Kind.FENCED, "b0"),
        Event(Kind.FENCED, "b1"),
        Event(Kind.SHOWN, "b0", 2, 2),
        Event(Kind.DENIED, "b1", 2, 60_000),
        Event(Kind.WRITTEN_BACK, "b0", 2, 2),
        Event(Kind.WRITTEN_BACK, "b3", 2, 2),
        Event(Kind.DENIED, "b0", 3, 60_000),
        Event(Kind.REFUSED, "b1", 2, 2),
        Event(Kind.CLOSED, "", 0, 2, SECOND),
        Event(Kind.DELETED),
    ]


def changed() -> Trace:
    """The writer replaces a bookie at entry 2 and closes the ledger itself."""
    return [
        Event(Kind.OPENED, fragments=FIRST),
        Event(Kind.ADDED, "b0", 0, 1),
        Event(Kind.ADDED, "b2", 0, 1),
        Event(Kind.OPENED, fragments=SECOND),
        Event(Kind.ADDED, "b1", 2, 2),
        Event(Kind.ADDED, "b3", 2, 2),
        Event(Kind.CONFIRMED, "", 2, 2),
        Event(Kind.CLOSED, "", 0, 2, SECOND),
    ]


@pytest.mark.parametrize("trace", [recovered(), changed(), []], ids=["recovered", "changed", ""])
def test_a_sound_trace_is_accepted(trace: Trace) -> None:
    assert judge(SHAPE, trace) is None


def test_a_fence_that_reaches_a_replaced_bookie_late_explains_its_refusal() -> None:
    """Found by the simulator (service, seed 178 with candidates away): b2 is asked, does not answer
    and is replaced. The fence arrives after the close, and then an add of the old writer.
    """
    late = Event(Kind.REFUSED, "b2", 2, 2)
    assert judge(SHAPE, [*recovered()[:-1], late]) is None
    refusal = judge(SHAPE, [*recovered()[:-1], late._replace(bookie="b9")])
    assert refusal is not None
    assert "no recovery fences it" in refusal.reason


def _without(kind: Kind, bookie: str) -> Callable[[Trace], Trace]:
    return lambda trace: [e for e in trace if (e.kind, e.bookie) != (kind, bookie)]


def _instead(kind: Kind, other: Event) -> Callable[[Trace], Trace]:
    return lambda trace: [other if each.kind is kind else each for each in trace]


def _after(kind: Kind, more: Event) -> Callable[[Trace], Trace]:
    def spoil(trace: Trace) -> Trace:
        at = next(number for number, each in enumerate(trace) if each.kind is kind)
        return [*trace[: at + 1], more, *trace[at + 1 :]]

    return spoil


WRONG: dict[str, tuple[Callable[[], Trace], Callable[[Trace], Trace], str]] = {
    "an add after a fence": (recovered, _after(Kind.SHOWN, Event(Kind.ADDED, "b1", 2, 2)), "B6"),
    "an add after the deletion": (recovered, lambda t: [*t, Event(Kind.ADDED, "b0", 1, 3)], "B6"),
    "an ack without a quorum": (recovered, _without(Kind.ADDED, "b1"), "W2"),
    "an end below an ack": (
        recovered,
        _after(Kind.RECOVERING, Event(Kind.CLOSED, "", 0, 0, FIRST)),
        "recovery 2",
    ),
    "an end that was not denied": (recovered, _without(Kind.DENIED, "b0"), "recovery 4"),
    "an entry with one copy": (recovered, _without(Kind.WRITTEN_BACK, "b3"), "L3"),
    "a denial of what is held": (
        recovered,
        _after(Kind.SHOWN, Event(Kind.DENIED, "b1", 1, 9)),
        "B3",
    ),
    "an entry from nowhere": (recovered, _after(Kind.SHOWN, Event(Kind.SHOWN, "b1", 2, 2)), "L4"),
    "another entry written back": (
        recovered,
        _after(Kind.SHOWN, Event(Kind.WRITTEN_BACK, "b0", 3, 3)),
        "L4",
    ),
    "a refusal without a fence": (
        changed,
        _after(Kind.OPENED, Event(Kind.REFUSED, "b0", 0, 0)),
        "no",
    ),
    "a second end": (recovered, lambda t: [*t[:-1], Event(Kind.CLOSED, "", 0, 1, SECOND)], "M1"),
    "recovery of a closed ledger": (
        changed,
        lambda t: [*t, Event(Kind.RECOVERING, fragments=SECOND)],
        "M1",
    ),
    "a change during recovery": (
        recovered,
        _after(Kind.RECOVERING, Event(Kind.OPENED, fragments=SECOND)),
        "W5",
    ),
    "sent before it is named": (changed, _after(Kind.OPENED, Event(Kind.ADDED, "b3", 1, 1)), "W4"),
    "a fragment above LAC": (
        changed,
        _instead(Kind.OPENED, Event(Kind.OPENED, fragments=FIRST)),
        "W4",
    ),
    "a writer that closes too far": (
        changed,
        _instead(Kind.CLOSED, Event(Kind.CLOSED, "", 0, 3, SECOND)),
        "W2",
    ),
    "another first fragment": (
        changed,
        _after(
            Kind.CONFIRMED,
            Event(Kind.OPENED, fragments=((0, ("b0", "b1", "b9")), (3, ("b0", "b1", "b2")))),
        ),
        "L5",
    ),
}


@pytest.mark.parametrize(("make", "spoil", "rule"), WRONG.values(), ids=WRONG)
def test_one_wrong_step_is_refused(
    make: Callable[[], Trace], spoil: Callable[[Trace], Trace], rule: str
) -> None:
    refusal = judge(SHAPE, spoil(make()))
    assert refusal is not None
    assert rule in refusal.reason, refusal


def test_a_recovery_below_an_ack_is_refused_though_it_was_denied() -> None:
    trace = changed()[:-1]
    trace += [
        Event(Kind.RECOVERING, fragments=SECOND),
        *(Event(Kind.FENCED, bookie) for bookie in ("b0", "b1", "b3")),
        *(Event(Kind.DENIED, bookie, 2, 9) for bookie in ("b0",)),
        Event(Kind.DENIED, "b3", 2, 9),
    ]
    refusal = judge(SHAPE, trace)
    assert refusal is not None
    assert "B3" in refusal.reason


def test_a_writer_that_hears_late_counts_its_own_ensemble() -> None:
    """The recovery gave the last entry another ensemble; the writer had it acknowledged before."""
    trace = recovered()[:-1]
    trace.insert(3, Event(Kind.ADDED, "b2", 2, 2))
    assert judge(SHAPE, [*trace, Event(Kind.CONFIRMED, "", 2, 2)]) is None


def test_ranges() -> None:
    assert ranges([]) == []
    assert ranges([3, 4, 5, 7, 9, 10]) == [(3, 5), (7, 7), (9, 10)]
