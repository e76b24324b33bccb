"""The state of a bookie: a table, and the clock that counts its silence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.healing.state import (
    LOST_SECONDS,
    BookieFacts,
    State,
    present_ms,
    silent_seconds,
    state_of,
)
from quire.metastore.standing import Standing, Wish
from tests.healing.scene import AWAY, DRAIN, GONE, NOW, bookie

OVER = Standing(Wish.AWAY, "", "", NOW - 60_000, NOW - 1)

TABLE = {
    "registered": (bookie(), State.UP),
    "its record says read-only": (bookie(writable=False), State.READ_ONLY),
    "it does not answer": (bookie(silence="no answer"), State.UP),
    "not registered": (bookie(up=False), State.SILENT),
    "just not lost": (bookie(up=False, heard=LOST_SECONDS - 0.001), State.SILENT),
    "lost": (bookie(up=False, heard=LOST_SECONDS), State.LOST),
    "silent since nothing tells when": (bookie(up=False, heard=None), State.SILENT),
    "away and up": (bookie(standing=AWAY), State.AWAY),
    "away and stopped": (bookie(up=False, heard=9e9, standing=AWAY), State.AWAY),
    "away, and late": (bookie(up=False, standing=OVER), State.SILENT),
    "away, and lost": (bookie(up=False, heard=9e9, standing=OVER), State.LOST),
    "back from away": (bookie(standing=OVER), State.UP),
    "draining": (bookie(writable=False, standing=DRAIN), State.DRAINING),
    "draining and silent": (bookie(up=False, standing=DRAIN), State.SILENT),
    "draining and lost": (bookie(up=False, heard=9e9, standing=DRAIN), State.LOST),
    "gone": (bookie(up=False, heard=None, standing=GONE), State.GONE),
    "gone, and it serves": (bookie(standing=GONE), State.GONE),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_states(name: str) -> None:
    facts, state = TABLE[name]
    assert state_of(facts, NOW) is state


def test_every_state_is_in_the_table() -> None:
    assert {state for _, state in TABLE.values()} == set(State)


def test_the_limit_of_silence_can_be_chosen() -> None:
    assert state_of(bookie(up=False, heard=5), NOW, lost_seconds=5) is State.LOST


def test_a_bookie_that_answers_with_no_room_is_read_only() -> None:
    facts = bookie()
    assert facts.info is not None
    full = replace(facts, info=replace(facts.info, writable=False))
    assert state_of(full, NOW) is State.READ_ONLY


@given(st.integers(-(10**15), 10**15))
def test_a_wrong_clock_makes_no_bookie_lost_while_others_are_up(off: int) -> None:
    dead, up = bookie(up=False, heard=20), bookie("b2", heard=0)
    now = present_ms(NOW + off, [dead, up])
    assert NOW <= now <= NOW + 60_000
    assert state_of(dead, now) is State.SILENT


def test_without_a_bookie_that_is_up_the_clock_counts() -> None:
    dead = bookie(up=False)
    assert present_ms(NOW + 10**9, [dead]) == NOW + 10**9
    assert silent_seconds(dead, NOW - 10**9) == 0.0


def test_a_bookie_is_known_by_its_last_words() -> None:
    dead = bookie(up=False)
    assert (dead.address, dead.labels.host) == ("b1:1", "h-b1")
    unheard = BookieFacts("b9")
    assert (unheard.address, unheard.labels.host, unheard.disks) == ("", "", ())
    assert unheard.in_limbo == 0
