"""Histories with a violation each, planted by hand, and which judge has to notice it.

`HONEST` is legal, and nearly every kind of operation is in it. Each planted history is an honest
beginning with one wrong thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.judges.history import Kind, Operation, Outcome


class Scene:
    """A history under construction. Operations follow each other unless times are given."""

    def __init__(self) -> None:
        self.history: list[Operation] = []
        self.time = 0

    def _times(self, during: tuple[int, int | None] | None) -> tuple[int, int | None]:
        if during is not None:
            return during
        self.time += 10
        return self.time, self.time + 5

    def append(
        self,
        *values: str,
        offset: int | None = None,
        outcome: Outcome = Outcome.OK,
        expected: int | None = None,
        place: tuple[int, ...] | None = None,
        process: str = "writer",
        during: tuple[int, int | None] | None = None,
    ) -> None:
        """Add an append. With an unknown outcome it has no return."""
        called, returned = self._times(during)
        self.history.append(
            Operation(
                process=process,
                number=len(self.history),
                kind=Kind.APPEND,
                called=called,
                returned=None if outcome is Outcome.UNKNOWN else returned,
                outcome=outcome,
                values=values,
                offset=offset,
                expected=expected,
                place=place,
            )
        )

    def read(self, process: str, offset: int, *values: str) -> None:
        """Add a read."""
        called, returned = self._times(None)
        self.history.append(
            Operation(
                process=process,
                number=len(self.history),
                kind=Kind.READ,
                called=called,
                returned=returned,
                outcome=Outcome.OK,
                values=values,
                offset=offset,
            )
        )

    def end(self, offset: int, during: tuple[int, int | None] | None = None) -> None:
        """Add a linearizable end."""
        called, returned = self._times(during)
        self.history.append(
            Operation(
                process="looker",
                number=len(self.history),
                kind=Kind.END,
                called=called,
                returned=returned,
                outcome=Outcome.OK,
                offset=offset,
            )
        )

    def trim(self, offset: int) -> None:
        """Say that records before an offset may be gone."""
        called, returned = self._times(None)
        self.history.append(
            Operation(
                process="owner",
                number=len(self.history),
                kind=Kind.TRIM,
                called=called,
                returned=returned,
                outcome=Outcome.OK,
                offset=offset,
            )
        )

    def last_read(self, *values: str) -> None:
        """Read the whole log to its end."""
        self.read("last", 0, *values)
        self.end(len(values))


@dataclass(frozen=True, slots=True)
class Planted:
    """A history that is wrong."""

    anomaly: str
    """What our own checker calls it."""
    history: Sequence[Operation]
    breaks_linearizability: bool = True
    """Whether the judges of linearizability can see it as well."""


def _begin() -> Scene:
    scene = Scene()
    scene.append("a", offset=0)
    scene.append("b", "c", offset=1)
    scene.end(3)
    return scene


def _honest() -> list[Operation]:
    scene = _begin()
    scene.read("reader", 0, "a")
    scene.append("d", offset=3, expected=3)
    scene.append("x", outcome=Outcome.FAILED, expected=1)
    scene.append("y", outcome=Outcome.UNKNOWN, process="died")
    scene.append("e", outcome=Outcome.UNKNOWN, process="died too")
    scene.append("z", outcome=Outcome.UNKNOWN, process="died at last", expected=2)
    now = scene.time
    scene.append("g", offset=6, during=(now + 20, now + 40))
    scene.append("f", offset=5, during=(now + 21, now + 39), process="other")
    scene.end(5, during=(now + 19, now + 41))
    scene.time += 40
    scene.read("reader", 1, "b", "c", "d")
    scene.last_read("a", "b", "c", "d", "e", "f", "g")
    return scene.history


def _lost_write() -> list[Operation]:
    scene = _begin()
    scene.append("d", offset=3)
    scene.last_read("a", "b", "c", "e")
    scene.append("e", offset=3, outcome=Outcome.UNKNOWN, during=(1, None))
    scene.append("f", offset=4)
    scene.read("last again", 4, "f")
    return scene.history


def _unseen() -> list[Operation]:
    scene = _begin()
    scene.append("d", offset=3)
    scene.last_read("a", "b", "c")
    return scene.history


def _duplicate() -> list[Operation]:
    scene = _begin()
    scene.append("d", offset=4, during=(scene.time, scene.time + 9))
    scene.time += 10
    scene.last_read("a", "b", "c", "a", "d")
    return scene.history


def _inconsistent() -> list[Operation]:
    scene = _begin()
    scene.append("d", outcome=Outcome.UNKNOWN, process="died")
    scene.append("e", outcome=Outcome.UNKNOWN, process="died too")
    scene.read("reader", 3, "d")
    scene.last_read("a", "b", "c", "e")
    return scene.history


def _aborted() -> list[Operation]:
    scene = _begin()
    scene.append("d", outcome=Outcome.FAILED)
    scene.last_read("a", "b", "c", "d")
    return scene.history


def _torn() -> list[Operation]:
    scene = _begin()
    scene.append("d", "e", outcome=Outcome.UNKNOWN)
    scene.append("f", offset=4)
    scene.last_read("a", "b", "c", "d", "f")
    return scene.history


def _skip() -> list[Operation]:
    scene = _begin()
    scene.read("reader", 0, "a")
    scene.read("reader", 2, "c")
    scene.last_read("a", "b", "c")
    return scene.history


def _back() -> list[Operation]:
    scene = _begin()
    scene.read("reader", 1, "b", "c")
    scene.read("reader", 0, "a")
    scene.last_read("a", "b", "c")
    return scene.history


def _send_order() -> list[Operation]:
    scene = _begin()
    scene.append("e", offset=4)
    scene.append("d", offset=3)
    scene.last_read("a", "b", "c", "d", "e")
    return scene.history


def _condition() -> list[Operation]:
    scene = _begin()
    scene.append("d", offset=3, expected=2)
    scene.last_read("a", "b", "c", "d")
    return scene.history


def _stale_end() -> list[Operation]:
    scene = _begin()
    scene.append("d", offset=3)
    scene.end(3)
    scene.last_read("a", "b", "c", "d")
    return scene.history


def _end_goes_back() -> list[Operation]:
    scene = _begin()
    scene.append("d", outcome=Outcome.UNKNOWN)
    scene.end(4)
    scene.end(3)
    scene.last_read("a", "b", "c", "d")
    return scene.history


HONEST: Final = _honest()

PLANTED: Final[dict[str, Planted]] = {
    "an acknowledged record gave way to another": Planted("lost write", _lost_write()),
    "an acknowledged record is after the end": Planted("unseen", _unseen()),
    "a record is in the log twice": Planted("duplicate", _duplicate()),
    "two readers met two records at one offset": Planted("inconsistent offsets", _inconsistent()),
    "a refused record is in the log": Planted("aborted read", _aborted()),
    "half of a batch is in the log": Planted("torn batch", _torn()),
    "a reader jumped over a record": Planted("poll skip", _skip(), False),
    "a reader went back": Planted("nonmonotonic poll", _back(), False),
    "an append stands before an earlier one": Planted("nonmonotonic send", _send_order()),
    "a condition did not hold": Planted("conditional append", _condition()),
    "an end misses what was acknowledged": Planted("stale end", _stale_end()),
    "an end is before an earlier end": Planted("stale end", _end_goes_back()),
}
