"""The window against a model that keeps a set of acks per entry, ensemble changes included."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quire.ledger.quorum import Replication
from quire.ledger.window import AppendWindow
from tests.support.examples import examples


class WindowMachine(RuleBasedStateMachine):
    """Drives the window and the dumb model side by side."""

    @initialize(data=st.data(), ensemble=st.integers(1, 6), confirmed=st.integers(-1, 20))
    def begin(self, data: st.DataObject, ensemble: int, confirmed: int) -> None:
        write = data.draw(st.integers(1, ensemble))
        self.replication = Replication(ensemble, write, data.draw(st.integers(1, write)))
        self.window = AppendWindow(self.replication, confirmed)
        self.lac = self.pushed = confirmed
        self.acks: dict[int, set[int]] = {}
        self.frozen = False

    def settle(self) -> None:
        while not self.frozen and self.lac < self.pushed:
            if len(self.acks[self.lac + 1]) < self.replication.ack_quorum:
                break
            self.lac += 1

    @rule(count=st.integers(1, 5))
    def push(self, count: int) -> None:
        for _ in range(count):
            self.pushed += 1
            self.acks[self.pushed] = set()
            assert self.window.push() == self.pushed

    @precondition(lambda self: self.pushed > self.lac)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        position = data.draw(st.integers(0, self.replication.ensemble - 1))
        entry = data.draw(st.integers(self.lac, self.pushed))
        for below in range(self.lac + 1, entry + 1):
            if self.replication.is_written_to(below, position):
                self.acks[below].add(position)
        self.settle()
        assert self.window.acknowledge(position, entry) == self.lac

    @precondition(lambda self: not self.frozen)
    @rule()
    def freeze(self) -> None:
        self.frozen = True
        assert self.window.freeze() == self.lac + 1

    @precondition(lambda self: self.frozen)
    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        positions = data.draw(st.sets(st.integers(0, self.replication.ensemble - 1)))
        for entry in range(self.lac + 1, self.pushed + 1):
            self.acks[entry] -= positions
        self.window.replace(sorted(positions), self.lac + 1)

    @precondition(lambda self: self.frozen)
    @rule()
    def thaw(self) -> None:
        self.frozen = False
        self.settle()
        assert self.window.thaw() == self.lac

    @invariant()
    def agree(self) -> None:
        if hasattr(self, "window"):
            self.window.check()
            assert (self.window.lac, self.window.pushed) == (self.lac, self.pushed)
            assert self.window.pending == range(self.lac + 1, self.pushed + 1)
            assert self.window.is_frozen == self.frozen


TestWindowMachine = WindowMachine.TestCase
TestWindowMachine.settings = examples(150, stateful_step_count=40)


def pushed(replication: Replication, count: int) -> AppendWindow:
    window = AppendWindow(replication)
    for _ in range(count):
        window.push()
    return window


def test_lac_is_the_second_of_three() -> None:
    window = pushed(Replication(3, 3, 2), 10)
    assert window.acknowledge(0, 9) == -1
    assert window.acknowledge(1, 4) == 4
    assert window.acknowledge(2, 7) == 7
    assert window.acknowledge(2, 3) == 7, "a watermark never falls"


def test_a_striped_entry_waits_for_its_own_write_set() -> None:
    """Entry 0 lives on 0 and 1, entry 1 on 1 and 2, entry 2 on 2 and 0."""
    window = pushed(Replication(3, 2, 2), 3)
    assert window.acknowledge(0, 2) == -1
    assert window.acknowledge(2, 2) == -1, "entry 2 is complete, entries 0 and 1 are not"
    assert window.acknowledge(1, 0) == 0
    assert window.acknowledge(1, 1) == 2


def test_acks_of_a_replaced_bookie_never_count() -> None:
    """The defect of BookKeeper issue 4097: acks were undone one entry at a time."""
    window = pushed(Replication(3, 2, 2), 6)
    window.acknowledge(0, 5)
    window.acknowledge(1, 0)
    assert window.lac == 0
    first = window.freeze()
    window.acknowledge(2, 5)
    assert window.acknowledge(1, 5) == 0, "frozen"
    window.replace([0], first)
    assert window.thaw() == 1, "entry 1 is on 1 and 2; entry 2 needs position 0 again"
    window.check()


def test_a_change_that_replaces_nothing_still_settles_what_came_meanwhile() -> None:
    window = pushed(Replication(3, 3, 2), 3)
    window.freeze()
    window.acknowledge(0, 2)
    window.acknowledge(1, 2)
    assert window.lac == -1
    assert window.thaw() == 2


@pytest.mark.parametrize(
    ("frozen", "misuse"),
    [
        (False, lambda window: window.replace([0], 0)),
        (True, lambda window: window.replace([0], 2)),
        (True, lambda window: window.freeze()),
        (False, lambda window: window.thaw()),
        (False, lambda window: window.acknowledge(0, 3)),
    ],
)
def test_misuse_is_caught(frozen: bool, misuse: Callable[[AppendWindow], object]) -> None:
    window = pushed(Replication(3, 3, 2), 3)
    if frozen:
        window.freeze()
    with pytest.raises(AssertionError):
        misuse(window)


@given(st.integers(0, 2**40))
def test_begins_behind_what_is_confirmed(confirmed: int) -> None:
    window = AppendWindow(Replication(5, 3, 2), confirmed)
    window.check()
    assert window.push() == confirmed + 1
    assert window.acknowledge((confirmed + 1) % 5, confirmed + 1) == confirmed
    assert window.acknowledge((confirmed + 2) % 5, confirmed + 1) == confirmed + 1
