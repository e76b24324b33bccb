"""Is a history of reads and writes linearizable? A small checker, one key at a time.

After J. Wing and C. Gong: try, in every order that real time allows, which operation took effect
next, and remember (operations done, value) that led nowhere. An operation without an answer may
take effect at any later time or never. Keys are independent, so each is checked by itself.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

Value = str | None


class Kind(StrEnum):
    READ = "read"
    WRITE = "write"
    SWAP = "swap"
    """Writes `value` if the value is `expected`; `succeeded` says whether it was."""


@dataclass(slots=True, eq=False)
class Operation:
    """One request: when it began and ended (inf: never answered), and what it did or saw."""

    client: int
    kind: Kind
    key: str
    value: Value
    began: float
    ended: float = math.inf
    expected: Value = None
    succeeded: bool = True

    @property
    def is_answered(self) -> bool:
        return self.ended < math.inf

    def effects(self, state: Value) -> list[Value]:
        """The values there may be after it, given the one before; none: it cannot come here."""
        if self.kind is Kind.READ:
            return [state] if state == self.value else []
        if self.kind is Kind.WRITE:
            return [self.value]
        swapped = state == self.expected
        if self.is_answered and swapped != self.succeeded:
            return []
        return [self.value if swapped else state]


def check(operations: Iterable[Operation]) -> list[str]:
    """Return the keys whose history is not linearizable."""
    by_key: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        if operation.is_answered or operation.kind is not Kind.READ:
            by_key[operation.key].append(operation)
    return [key for key, found in sorted(by_key.items()) if not _is_linearizable(found)]


def _without_unseen(operations: list[Operation]) -> tuple[list[Operation], bool]:
    """Leave out the unanswered writes whose value nobody met: whether they took effect is visible
    at most in a swap that failed. Returns whether there were any.
    """
    met = {each.value for each in operations if each.kind is Kind.READ}
    met |= {each.expected for each in operations if each.kind is Kind.SWAP and each.is_answered}
    kept = [each for each in operations if each.is_answered]
    rest = [each for each in operations if not each.is_answered]
    while found := [each for each in rest if each.value in met]:
        kept += found
        rest = [each for each in rest if each.value not in met]
        met |= {each.expected for each in found if each.kind is Kind.SWAP}
    return kept, bool(rest)


def _is_linearizable(operations: list[Operation]) -> bool:
    kept, is_any_unseen = _without_unseen(operations)
    ordered = sorted(kept, key=lambda each: each.began)
    wanted = sum(1 << place for place, each in enumerate(ordered) if each.is_answered)
    seen: set[tuple[int, Value]] = set()
    stack: list[tuple[int, Value]] = [(0, None)]
    while stack:
        done, state = stack.pop()
        if done & wanted == wanted:
            return True
        if (done, state) in seen:
            continue
        seen.add((done, state))
        for place in _next(ordered, done):
            operation = ordered[place]
            after = operation.effects(state)
            if is_any_unseen and operation.is_answered and not operation.succeeded:
                after = [state]  # it may have met a value that nobody saw
            stack.extend((done | 1 << place, value) for value in after)
    return False


def _next(ordered: list[Operation], done: int) -> list[int]:
    """Operations that may take effect next: those that began before any other has ended."""
    found: list[int] = []
    first_end = math.inf
    for place, each in enumerate(ordered):
        if done >> place & 1:
            continue
        if each.began > first_end:
            break
        found.append(place)
        first_end = min(first_end, each.ended)
    return [place for place in found if ordered[place].began <= first_end]
