"""The life of a leader's handle: one state, and the table of its transitions.

    LEADING ──close──→ CLOSING ──finish──→ CLOSED
       │                  ├──────seal────→ SEALED
       │                  │
       └──────────────────┴──depose──→ DEPOSED    another leader has taken over
                          ├──fail────→ FAILED     a task of the handle met an error
                          └──abandon─→ ABANDONED  the program dropped it

Invariants, which hold by the table:
  A handle that has ended keeps its state: the first end counts, and its error is the one that every
  later call raises.
  A handle takes no record once it is closing.
  Only a closing handle is closed or sealed.

Pure: no clock, no I/O, no tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from itertools import product
from typing import Final, TypeAlias

from quire.errors import QuireError

Refusal: TypeAlias = Callable[[], QuireError]
"""Makes a fresh error for each call."""


class State(StrEnum):
    """What a handle on a log is doing."""

    LEADING = "leading"
    CLOSING = "closing"
    CLOSED = "closed"
    SEALED = "sealed"
    DEPOSED = "deposed"
    FAILED = "failed"
    ABANDONED = "abandoned"


class Event(StrEnum):
    """What happens to a handle."""

    CLOSE = "close"
    """It takes no more records, and goes on with those it has."""
    FINISH = "finish"
    SEAL = "seal"
    DEPOSE = "depose"
    FAIL = "fail"
    ABANDON = "abandon"


ENDS: Final = frozenset((State.CLOSED, State.SEALED, State.DEPOSED, State.FAILED, State.ABANDONED))

TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.LEADING, Event.CLOSE): State.CLOSING,
    (State.LEADING, Event.DEPOSE): State.DEPOSED,
    (State.LEADING, Event.FAIL): State.FAILED,
    (State.LEADING, Event.ABANDON): State.ABANDONED,
    (State.CLOSING, Event.CLOSE): State.CLOSING,
    (State.CLOSING, Event.FINISH): State.CLOSED,
    (State.CLOSING, Event.SEAL): State.SEALED,
    (State.CLOSING, Event.DEPOSE): State.DEPOSED,
    (State.CLOSING, Event.FAIL): State.FAILED,
    (State.CLOSING, Event.ABANDON): State.ABANDONED,
    **{(end, event): end for end, event in product(sorted(ENDS), Event)},
}
"""A missing pair is a defect of the handle."""


class Life:
    """The state of one handle, and the error that refuses calls."""

    __slots__ = ("refusal", "state")

    def __init__(self) -> None:
        self.state = State.LEADING
        self.refusal: Refusal | None = None
        """What a submission raises; None while the handle leads."""

    @property
    def has_ended(self) -> bool:
        """Whether the handle leads no more."""
        return self.state in ENDS

    def move(self, event: Event, refusal: Refusal) -> bool:
        """Take an event whose consequence for calls is an error; return whether it ended the
        handle.
        """
        if self.has_ended:
            return False
        assert (self.state, event) in TRANSITIONS, f"{event} while {self.state}"
        self.state, self.refusal = TRANSITIONS[self.state, event], refusal
        return self.has_ended
