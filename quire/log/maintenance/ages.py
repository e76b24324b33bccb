"""How old the segments of a log are, whatever single clocks say.

A log is written by one leader after the other, and each has a clock of its own. If one of them is
years ahead, then neither its own view of the log (all older segments would be ancient) nor the
times that it leaves behind may decide what is deleted. So no age is a difference of two clocks. It
is a sum of steps:

  * between two neighbouring segments: from the last record of one, and from the beginning of one,
    to the beginning of the next. A step backwards counts nothing, a step forwards counts `STEP` of
    the retention at most, or two rolls if those are longer, and never more than half of it
  * from the beginning of the present segment to now: what the present leader measured by its
    monotonic clock, in full

So one jump of a clock makes a segment older by one step at most; jumps add up. Once clocks are
right again ages grow as they should. A log without a leader for a long time is kept longer than it
was told to: by the part of the gap that is not counted.

Pure. Source: docs/decisions/0022-clocks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quire.log.manifest.segment import Segment

STEP: Final = 0.1
"""Share of the retention that one step counts at most, if a segment is rolled more often."""

STEP_MAX: Final = 0.5
"""…and the most that it counts if not."""


def longest_step_ms(retention_seconds: float, roll_seconds: float) -> int:
    """Return what a step between two segments counts at most, in milliseconds."""
    wanted = max(STEP * retention_seconds, 2 * roll_seconds)
    return int(1000 * min(wanted, STEP_MAX * retention_seconds))


def ages_ms(segments: Sequence[Segment], since_ms: int, step_ms: int) -> list[int]:
    """Return how old the last record of each segment is at least, in milliseconds.

    Args:
        segments: all segments of a log, in order; the last one is the present leader's.
        since_ms: how long ago that one began, by the leader's monotonic clock.
        step_ms: what a step between two segments counts at most.

    Returns:
        One age for each segment; that of the last one, and of an open one, is 0.
    """
    ages = [0] * len(segments)
    whole = since_ms
    for at in range(len(segments) - 2, -1, -1):
        segment, following = segments[at : at + 2]
        last_ms = segment.last_timestamp_ms
        if last_ms is not None:
            ages[at] = whole + _step(last_ms, following.created_ms, step_ms)
        whole += _step(segment.created_ms, following.created_ms, step_ms)
    return ages


def _step(before_ms: int, after_ms: int, step_ms: int) -> int:
    return min(max(after_ms - before_ms, 0), step_ms)
