"""How the loop draws its next step: the policies."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from quire.testing.sim.process import Incarnation, SimHandle

Draw = Callable[[], float]

PRIORITY_CHANGES: Final = 0.02
"""How often the node that runs loses priority."""


class Policy(StrEnum):
    """How the next step is chosen."""

    INTERLEAVE = "interleave"
    WALK = "walk"
    PRIORITY = "priority"


def _interleave(runnable: list[Incarnation], draw: Draw) -> SimHandle:
    """A node at random, its oldest step. The loop has this inlined."""
    index = int(draw() * len(runnable)) if len(runnable) > 1 else 0
    return _take(runnable, index, 0)


def _walk(runnable: list[Incarnation], draw: Draw) -> SimHandle:
    """A node at random, any of its steps."""
    index = int(draw() * len(runnable)) if len(runnable) > 1 else 0
    waiting = len(runnable[index].queue)
    return _take(runnable, index, int(draw() * waiting) if waiting > 1 else 0)


def _by_priority(runnable: list[Incarnation], draw: Draw) -> SimHandle:
    """The node of the highest priority, its oldest step; priorities change now and then."""
    if len(runnable) == 1:
        return _take(runnable, 0, 0)
    for node in runnable:
        if not node.priority:
            node.priority = draw()
    index = max(range(len(runnable)), key=lambda i: runnable[i].priority)
    if draw() < PRIORITY_CHANGES:
        runnable[index].priority *= draw()
    return _take(runnable, index, 0)


def _take(runnable: list[Incarnation], index: int, skip: int) -> SimHandle:
    queue = runnable[index].queue
    if skip:
        queue.rotate(-skip)
        handle = queue.popleft()
        queue.rotate(skip)
    else:
        handle = queue.popleft()
    if not queue:
        runnable[index] = runnable[-1]
        runnable.pop()
    return handle


CHOICES: Final = {
    Policy.INTERLEAVE: _interleave,
    Policy.WALK: _walk,
    Policy.PRIORITY: _by_priority,
}
