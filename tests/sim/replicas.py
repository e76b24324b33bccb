"""What replicas of a service carry out, and what those who asked them are told.

The state machine is its own history, so nothing can be lost, doubled or exchanged unnoticed. What
any replica has carried out is compared at once with what all others have.

  R1  at an offset all replicas carry out the same, and each has all that is before it
  R2  a command that was answered is carried out once, as answered; one that was refused never
  R3  an answer, and what is read behind a barrier, is behind all that was answered before the call

Snapshots are watched in photographer.py (R5, R6).
"""

from __future__ import annotations

import json
from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, field

from quire.service import Applied
from tests.sim.history import Outcome, Violation, require


@dataclass(slots=True)
class Command:
    """One command that was submitted; `before` is how many had been carried out for sure."""

    text: str
    before: int
    outcome: Outcome = Outcome.PENDING
    place: int = 0


@dataclass
class ServiceHistory:
    """Everything that happened to one service."""

    report: Callable[[Violation], None]
    truth: dict[int, tuple[int, str]] = field(default_factory=dict)
    """What was carried out by anybody: epoch and command by offset."""
    commands: list[Command] = field(default_factory=list)
    answered: int = 0
    """The highest place in the order of all commands that anybody was told."""
    restored: int = 0
    _offsets: list[int] = field(default_factory=list)

    def carry_out(self, offset: int, found: tuple[int, str]) -> tuple[int, str]:
        """Note what is carried out at an offset; return what was there first."""
        if offset not in self.truth:
            self.truth[offset] = found
            insort(self._offsets, offset)
        return self.truth[offset]

    def number(self, offset: int) -> int:
        """How many commands were carried out up to an offset."""
        return bisect_right(self._offsets, offset)

    def submit(self, text: str) -> Command:
        self.commands.append(command := Command(text, self.answered))
        return command

    def answer(self, command: Command, place: int) -> None:
        """A command was answered with its place in the order, from 1."""
        command.outcome, command.place = Outcome.OK, place
        self.check_behind(place - 1, command.before, f"command {command.text}")
        self.answered = max(self.answered, place)

    def check_behind(self, place: int, before: int, what: str) -> None:
        """R3: what was done or seen at `place` is behind what was answered before the call."""
        text = f"{what} is at {place}, {before} had been answered when it was begun"
        if place < before:
            self.report(Violation("R3 an answer is behind those before it", text))

    @property
    def order(self) -> list[str]:
        """All commands that were carried out, in order."""
        return [self.truth[offset][1] for offset in sorted(self.truth)]

    def check(self) -> None:
        """R2, when all is over."""
        order = self.order
        places = {text: place for place, text in enumerate(order, 1)}
        require(
            len(places) == len(order),
            "R2 a command is carried out as answered",
            f"something was carried out twice: {sorted(order)}",
        )
        for command in self.commands:
            place = places.get(command.text)
            require(
                command.outcome is not Outcome.OK or place == command.place,
                "R2 a command is carried out as answered",
                f"{command} is at {place}",
            )
            require(
                command.outcome is not Outcome.FAILED or place is None,
                "R2 a command is carried out as answered",
                f"{command} is at {place}",
            )
        asked = {command.text for command in self.commands}
        text = f"nobody asked for {sorted(set(places) - asked)}"
        require(set(places) <= asked, "R2 a command is carried out as answered", text)


class Register:
    """The state machine of one life of one replica. Implements `Application`."""

    def __init__(self, history: ServiceHistory, who: str) -> None:
        self._history = history
        self.who = who
        self.done: list[tuple[int, str]] = []
        """Offset and text of each command."""

    @property
    def last_offset(self) -> int:
        return self.done[-1][0] if self.done else -1

    def apply(self, command: bytes, at: Applied) -> int:
        found = (at.epoch, command.decode())
        known = self._history.carry_out(at.offset, found)
        self._agree(known == found, f"carries out {found} at offset {at.offset}, not {known}")
        self._agree(at.offset > self.last_offset, f"is at {at} after {self.last_offset}")
        self.done.append((at.offset, found[1]))
        number = self._history.number(at.offset)
        text = f"has {len(self.done)} of {number} commands up to {at.offset}"
        self._agree(len(self.done) == number, text)
        return len(self.done)

    def snapshot(self) -> bytes:
        return json.dumps(self.done).encode()

    def restore(self, state: bytes) -> None:
        self.done = [(offset, text) for offset, text in json.loads(state)]
        self._history.restored += 1
        truth, number = self._history.truth, self._history.number(self.last_offset)
        same = all(truth[offset][1] == text for offset, text in self.done)
        text = f"restores {len(self.done)} of {number} commands up to {self.last_offset}"
        self._agree(same and len(self.done) == number, text)

    def _agree(self, condition: bool, text: str) -> None:
        if not condition:
            self._history.report(Violation("R1 replicas agree", f"{self.who} {text}"))
