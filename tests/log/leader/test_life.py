"""A handle's life: every pair of state and event, and the first end, which counts."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest

from quire.errors import QuireError
from quire.log.leader.life import ENDS, TRANSITIONS, Event, Life, State

IMPOSSIBLE = {(State.LEADING, Event.FINISH), (State.LEADING, Event.SEAL)}


def refused(text: str) -> QuireError:
    return QuireError(text)


def lived(*events: Event) -> Life:
    life = Life()
    for event in events:
        life.move(event, partial(refused, event))
    return life


def said(life: Life) -> str | None:
    return None if life.refusal is None else str(life.refusal())


def test_each_event_has_a_consequence_in_each_state() -> None:
    assert set(product(State, Event)) - set(TRANSITIONS) == IMPOSSIBLE
    assert set(State) == {State.LEADING, *TRANSITIONS.values()}


@pytest.mark.parametrize(("end", "event"), list(product(sorted(ENDS), Event)))
def test_a_handle_that_has_ended_keeps_its_state(end: State, event: Event) -> None:
    assert TRANSITIONS[end, event] is end


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([], State.LEADING),
        ([Event.CLOSE], State.CLOSING),
        ([Event.CLOSE, Event.FINISH], State.CLOSED),
        ([Event.CLOSE, Event.SEAL], State.SEALED),
        ([Event.DEPOSE], State.DEPOSED),
        ([Event.CLOSE, Event.FAIL], State.FAILED),
        ([Event.ABANDON], State.ABANDONED),
    ],
)
def test_the_states_follow_the_events(events: list[Event], state: State) -> None:
    life = lived(*events)
    assert (life.state, life.has_ended) == (state, state in ENDS)
    assert said(life) == (events[-1] if events else None)


@pytest.mark.parametrize(("first", "second"), list(product(sorted(ENDS), Event)))
def test_the_first_end_counts_and_its_error_stays(first: State, second: Event) -> None:
    cause = next(event for event in Event if TRANSITIONS[State.CLOSING, event] is first)
    life = lived(Event.CLOSE, cause)
    assert not life.move(second, lambda: refused("later"))
    assert (life.state, said(life)) == (first, cause)


def test_only_the_event_that_ends_it_says_so() -> None:
    life = Life()
    assert not life.move(Event.CLOSE, lambda: refused("closing"))
    assert life.move(Event.DEPOSE, lambda: refused("deposed"))
    assert not life.move(Event.FAIL, lambda: refused("failed"))


@pytest.mark.parametrize("event", [Event.FINISH, Event.SEAL])
def test_a_handle_is_not_closed_before_it_stopped_to_take_records(event: Event) -> None:
    with pytest.raises(AssertionError, match="while leading"):
        Life().move(event, lambda: refused("no"))
