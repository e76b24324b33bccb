"""A sound trace is a behaviour of the specification; of a wrong step the rule is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.spec.events import NOTHING, Event, Fragments, Kind, Shape
from tests.spec.trace import judge

SHAPE = Shape(3, 3, 2)
FIRST: Fragments = ((0, ("b0", "b1", "b2")),)
SECOND: Fragments = (*FIRST, (2, ("b0", "b1", "b3")))
Trace = list[Event]


def recovery(kind: Kind, bookie: str = "", first: int = 0, last: int = -1, by: str = "r1") -> Event:
    """What a recovery tells."""
    return Event(kind, bookie, first, last, token=by)


def recovered() -> Trace:
    """Three entries, one of them on a single bookie; a recovery that replaces b2 and ends at 2."""
    return [
        Event(Kind.OPENED, fragments=FIRST, version=1),
        Event(Kind.ADDED, "b0", 0, 2),
        Event(Kind.ADDED, "b1", 0, 1),
        Event(Kind.CONFIRMED, "", 1, 1),
        Event(Kind.RECOVERING, fragments=FIRST, version=2),
        recovery(Kind.BEGAN),
        Event(Kind.FENCED, "b0"),
        Event(Kind.FENCED, "b1"),
        recovery(Kind.STARTED, "", 0, 1),
        recovery(Kind.SHOWN, "b0", 2, 2),
        Event(Kind.DENIED, "b1", 2, 60_000),
        recovery(Kind.COUNTED, "b1", 2, 60_000),
        Event(Kind.WRITTEN_BACK, "b0", 2, 2),
        Event(Kind.WRITTEN_BACK, "b3", 2, 2),
        Event(Kind.DENIED, "b0", 3, 60_000),
        recovery(Kind.COUNTED, "b0", 3, 60_000),
        Event(Kind.REFUSED, "b1", 2, 2),
        recovery(Kind.CLOSING, "", 0, 2),
        Event(Kind.CLOSED, "", 0, 2, SECOND, version=3),
        Event(Kind.DELETED),
        Event(Kind.RETIRED, "b1"),
    ]


def changed() -> Trace:
    """The writer replaces a bookie at entry 2 and closes the ledger itself."""
    return [
        Event(Kind.OPENED, fragments=FIRST, version=1),
        Event(Kind.ADDED, "b0", 0, 1),
        Event(Kind.ADDED, "b2", 0, 1),
        Event(Kind.CONFIRMED, "", 0, 0),
        Event(Kind.FROZEN, "", 2),
        Event(Kind.OPENED, fragments=SECOND, version=2),
        Event(Kind.THAWED, fragments=SECOND[1:]),
        Event(Kind.ADDED, "b1", 2, 2),
        Event(Kind.REPLAYED, "b3", 2, 2),
        Event(Kind.CONFIRMED, "", 2, 2),
        Event(Kind.CLOSED, "", 0, 2, SECOND, version=3),
    ]


@pytest.mark.parametrize("trace", [recovered(), changed(), []], ids=["recovered", "changed", ""])
def test_a_sound_trace_is_accepted(trace: Trace) -> None:
    assert judge(SHAPE, trace) is None


def test_a_bookie_that_was_repaired_shows_what_it_did_not_tell() -> None:
    trace = [each for each in recovered() if each.kind is not Kind.ADDED or each.bookie != "b0"]
    trace[1:1] = [Event(Kind.ADDED, "b2", 0, 2)]
    shown = next(number for number, each in enumerate(trace) if each.kind is Kind.SHOWN)
    refusal = judge(SHAPE, trace)
    assert refusal is not None
    assert refusal.number == shown
    trace.insert(shown, Event(Kind.SALVAGED, "b0"))
    assert judge(SHAPE, trace) is None


def _without(kind: Kind, bookie: str = "") -> Callable[[Trace], Trace]:
    return lambda trace: [e for e in trace if (e.kind, e.bookie) != (kind, bookie)]


def _instead(kind: Kind, other: Event) -> Callable[[Trace], Trace]:
    return lambda trace: [other if each.kind is kind else each for each in trace]


def _after(kind: Kind, more: Event) -> Callable[[Trace], Trace]:
    def spoil(trace: Trace) -> Trace:
        at = next(number for number, each in enumerate(trace) if each.kind is kind)
        return [*trace[: at + 1], more, *trace[at + 1 :]]

    return spoil


def _by_another(kind: Kind) -> Callable[[Trace], Trace]:
    """A second recovery tells what the first one counted."""

    def spoil(trace: Trace) -> Trace:
        at = next(number for number, each in enumerate(trace) if each.kind is Kind.BEGAN)
        trace.insert(at, recovery(Kind.BEGAN, by="r2"))
        return [each._replace(token="r2") if each.kind is kind else each for each in trace]

    return spoil


WRONG: dict[str, tuple[Callable[[], Trace], Callable[[Trace], Trace], str]] = {
    "an add after a fence": (recovered, _after(Kind.SHOWN, Event(Kind.ADDED, "b1", 2, 2)), "B6"),
    "an add after the deletion": (recovered, lambda t: [*t, Event(Kind.ADDED, "b0", 1, 3)], "B6"),
    "an add after the ledger was dropped": (
        recovered,
        lambda t: [*t, Event(Kind.RETIRED, "b2"), Event(Kind.ADDED, "b2", 1, 1)],
        "B11",
    ),
    "dropped before it is deleted": (
        changed,
        _after(Kind.OPENED, Event(Kind.RETIRED, "b0")),
        "drop",
    ),
    "given up before it is closed": (
        changed,
        _after(Kind.OPENED, Event(Kind.DISOWNED, "b0")),
        "H7",
    ),
    "a retired ledger is denied": (recovered, lambda t: [*t, Event(Kind.DENIED, "b1", 5)], "B11"),
    "an ack without a quorum": (recovered, _without(Kind.ADDED, "b1"), "W2"),
    "an end below an ack": (
        recovered,
        _after(Kind.STARTED, recovery(Kind.CLOSING, "", 0, 0)),
        "recovery 3",
    ),
    "an end that no recovery decided": (recovered, _without(Kind.CLOSING), "recovery 7"),
    "an end that was not denied": (recovered, _without(Kind.COUNTED, "b0"), "recovery 4"),
    "a denial that no bookie gave": (recovered, _without(Kind.DENIED, "b0"), "did not deny"),
    "a denial of another range": (
        recovered,
        _instead(Kind.COUNTED, recovery(Kind.COUNTED, "b1", 3, 3)),
        "did not deny",
    ),
    "evidence of another recovery": (recovered, _by_another(Kind.COUNTED), "denied by 0"),
    "copies that another recovery saw": (recovered, _by_another(Kind.SHOWN), "never shown"),
    "a recovery that never began": (recovered, _without(Kind.BEGAN), "recovery 1"),
    "a recovery that never started": (recovered, _without(Kind.STARTED), "recovery 2"),
    "a start above LAC": (
        recovered,
        _instead(Kind.STARTED, recovery(Kind.STARTED, "", 0, 2)),
        "W2",
    ),
    "a start below the fragment": (
        recovered,
        _instead(Kind.STARTED, recovery(Kind.STARTED, "", 0, -2)),
        "recovery 3",
    ),
    "a write set that is not fenced": (recovered, _without(Kind.FENCED, "b1"), "recovery 2"),
    "a fence before the recovery": (changed, _after(Kind.OPENED, Event(Kind.FENCED, "b0")), "reco"),
    "a denial before the fence": (
        recovered,
        _after(Kind.RECOVERING, Event(Kind.DENIED, "b2", 2, 9)),
        "B6",
    ),
    "an entry with one copy": (recovered, _without(Kind.WRITTEN_BACK, "b3"), "L3"),
    "a denial of what is held": (
        recovered,
        _after(Kind.SHOWN, Event(Kind.DENIED, "b1", 1, 9)),
        "B3",
    ),
    "an entry from nowhere": (
        recovered,
        _after(Kind.SHOWN, recovery(Kind.SHOWN, "b1", 2, 2)),
        "L4",
    ),
    "another entry written back": (
        recovered,
        _after(Kind.SHOWN, Event(Kind.WRITTEN_BACK, "b0", 3, 3)),
        "L4",
    ),
    "a journal with an entry from nowhere": (
        recovered,
        _after(Kind.SHOWN, Event(Kind.REPLAYED, "b9", 3, 3)),
        "L4",
    ),
    "a refusal without a fence": (
        changed,
        _after(Kind.OPENED, Event(Kind.REFUSED, "b0", 0, 0)),
        "no",
    ),
    "a second end": (
        recovered,
        _after(Kind.CLOSED, Event(Kind.CLOSED, "", 0, 1, SECOND, version=4)),
        "M1",
    ),
    "recovery of a closed ledger": (
        changed,
        lambda t: [*t, Event(Kind.RECOVERING, fragments=SECOND, version=4)],
        "M1",
    ),
    "a change during recovery": (
        recovered,
        _after(Kind.RECOVERING, Event(Kind.OPENED, fragments=SECOND, version=3)),
        "W5",
    ),
    "sent before it is named": (changed, _after(Kind.OPENED, Event(Kind.ADDED, "b3", 1, 1)), "W4"),
    "confirmed during a change": (
        changed,
        _after(Kind.FROZEN, Event(Kind.CONFIRMED, "", 2, 2)),
        "W4",
    ),
    "thawed before it is named": (
        changed,
        _after(Kind.FROZEN, Event(Kind.THAWED, fragments=SECOND[1:])),
        "W4",
    ),
    "thawed on other bookies": (
        changed,
        _instead(Kind.THAWED, Event(Kind.THAWED, fragments=((2, ("b0", "b1", "b4")),))),
        "W4",
    ),
    "thawed twice": (changed, _after(Kind.THAWED, Event(Kind.THAWED, fragments=SECOND[1:])), "W4"),
    "frozen below LAC": (changed, _instead(Kind.FROZEN, Event(Kind.FROZEN, "", 0)), "W4"),
    "a fragment above LAC": (
        changed,
        _instead(Kind.FROZEN, Event(Kind.OPENED, fragments=((0, FIRST[0][1]), (3, SECOND[1][1])))),
        "W2",
    ),
    "a fragment below LAC": (
        changed,
        _instead(Kind.FROZEN, Event(Kind.CONFIRMED, "", 1, 1)),
        "thawed",
    ),
    "a writer that closes too far": (
        changed,
        _instead(Kind.CLOSED, Event(Kind.CLOSED, "", 0, 3, SECOND)),
        "W2",
    ),
    "a writer that closes below LAC": (
        changed,
        _instead(Kind.CLOSED, Event(Kind.CLOSED, "", 0, 1, SECOND)),
        "L1",
    ),
    "another first fragment": (
        changed,
        _after(
            Kind.CONFIRMED,
            Event(Kind.OPENED, fragments=((0, ("b0", "b1", "b9")), (2, ("b0", "b1", "b2")))),
        ),
        "L5",
    ),
    "a drop without a deletion": (recovered, _without(Kind.DELETED), "deletion"),
    "a record without a writer": (
        changed,
        lambda t: [*t, Event(Kind.RECORDED, version=4)],
        "at 3",
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
        Event(Kind.RECOVERING, fragments=SECOND, version=3),
        *(Event(Kind.FENCED, bookie) for bookie in ("b0", "b1", "b3")),
        *(Event(Kind.DENIED, bookie, 2, 9) for bookie in ("b0", "b3")),
    ]
    refusal = judge(SHAPE, trace)
    assert refusal is not None
    assert "B3" in refusal.reason


def completed(*before_the_end: Event) -> Trace:
    """`recovered`, but the completion gives the place of b3 to b2, which failed before."""
    trace = recovered()
    end = next(number for number, each in enumerate(trace) if each.kind is Kind.CLOSED)
    closed = Event(Kind.CLOSED, "", 0, 2, FIRST, version=3)
    return [*trace[:2], *before_the_end, *trace[2:end], closed, *trace[end + 1 :]]


def test_a_completion_may_count_what_a_new_holder_has_already() -> None:
    """Qa bookies took the entry from the recovery. One of them left, and another one has it."""
    assert judge(SHAPE, completed(Event(Kind.ADDED, "b2", 2, 2))) is None
    refusal = judge(SHAPE, completed())
    assert refusal is not None
    assert "L3: 2 has 1 copies" in refusal.reason


def test_what_a_start_found_may_be_lost_until_it_is_durable_anew() -> None:
    """The sync failed, the next life read the page cache, and the power failed after it."""
    trace = recovered()
    denied = next(number for number, each in enumerate(trace) if each.kind is Kind.DENIED)
    found, replayed = Event(Kind.FOUND, "b1", 2, 2), Event(Kind.REPLAYED, "b1", 2, 2)
    shown = recovery(Kind.SHOWN, "b1", 2, 2)
    assert judge(SHAPE, [*trace[:2], found, *trace[2:]]) is None
    assert judge(SHAPE, [*trace[:2], found, *trace[2:denied], shown]) is None
    for wrong, rule in (
        ([*trace[:2], found, replayed, *trace[2:]], "B3"),
        ([*trace[:2], found, *trace[2:denied], shown, *trace[denied:]], "B3"),
        ([*trace[:2], found, *trace[2 : denied + 1], shown], "L4"),
    ):
        refusal = judge(SHAPE, wrong)
        assert refusal is not None
        assert rule in refusal.reason


def test_a_writer_that_hears_late_counts_its_own_ensemble() -> None:
    """The recovery gave the last entry another ensemble; the writer had it acknowledged before."""
    trace = recovered()[:-2]
    trace.insert(3, Event(Kind.ADDED, "b2", 2, 2))
    assert judge(SHAPE, [*trace, Event(Kind.CONFIRMED, "", 2, 2)]) is None


def test_a_ledger_that_was_deleted_while_it_was_open_promises_nothing() -> None:
    """The bookies drop entries of a writer that goes on (section 3, H8)."""
    trace = changed()[:4]
    late = Event(Kind.CONFIRMED, "", 1, 1)
    assert judge(SHAPE, [*trace[:2], trace[3], late]) is not None
    assert judge(SHAPE, [*trace[:2], Event(Kind.DELETED), trace[3], late]) is None


UNDONE = (Event(Kind.OPENED, fragments=FIRST, version=1), Event(Kind.DELETED))
"""The answer to a creation was lost, and a gc deleted the record."""


def test_a_creation_that_is_sent_again_makes_the_ledger_once_more() -> None:
    assert judge(SHAPE, [*UNDONE, *changed()]) is None
    assert judge(SHAPE, [*UNDONE, *UNDONE, *changed()]) is None


@pytest.mark.parametrize(
    "told",
    [
        [Event(Kind.ADDED, "b0", 0, 0)],
        [Event(Kind.FOUND, "b0", 0, 0)],
        [Event(Kind.FROZEN, "", 0)],
        [Event(Kind.CLOSED, "", 0, NOTHING, FIRST, version=2)],
        [Event(Kind.OPENED, fragments=((0, ("b0", "b1", "b3")),), version=2)],
    ],
    ids=["added", "found", "frozen", "closed", "changed"],
)
def test_a_creation_that_was_answered_is_not_sent_again(told: Trace) -> None:
    refusal = judge(SHAPE, [UNDONE[0], *told, UNDONE[1], *changed()])
    assert refusal is not None
    assert "I1: a creation is sent again" in refusal.reason


def test_what_bookies_said_outlives_the_first_creation() -> None:
    """A recovery ended the ledger before its writer knew of it, and the record was deleted."""
    ended = [
        UNDONE[0],
        Event(Kind.RECOVERING, fragments=FIRST, version=2),
        *(Event(Kind.FENCED, bookie) for bookie in ("b0", "b1")),
        *(Event(Kind.DENIED, bookie, 0, 9) for bookie in ("b0", "b1")),
        recovery(Kind.BEGAN),
        recovery(Kind.STARTED, "", 0, NOTHING),
        *(recovery(Kind.COUNTED, bookie, 0, 9) for bookie in ("b0", "b1")),
        recovery(Kind.CLOSING, "", 0, NOTHING),
        Event(Kind.CLOSED, "", 0, NOTHING, FIRST, version=3),
        UNDONE[1],
        UNDONE[0],
    ]
    assert judge(SHAPE, ended) is None
    assert judge(SHAPE, [*ended, Event(Kind.ADDED, "b2", 0, 0)]) is None
    fenced = judge(SHAPE, [*ended, Event(Kind.ADDED, "b0", 0, 0)])
    assert fenced is not None
    assert "B6" in fenced.reason
    # A bookie that met it may have seen the record gone, and one that did not drops nothing.
    assert judge(SHAPE, [*ended, Event(Kind.RETIRED, "b0")]) is None
    dropped = judge(SHAPE, [*ended, Event(Kind.RETIRED, "b2")])
    assert dropped is not None
    assert "deletion" in dropped.reason
