"""The spans of a log that has damaged segments: of all segments but these.

A snapshot asks the ledgers of segments that are still open, and the first one's where the log was
trimmed inside it. If such a ledger is missing or damaged, there is no snapshot of the whole log.
So the log is looked at in parts. The parts without such a segment ask no ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from quire.errors import IntegrityError, NoSuchLedgerError, QuireError, RetryError
from quire.log.manifest.manifest import LogManifest
from quire.log.reading.bounds import EVERYTHING, Bounds
from quire.log.reading.span import Span
from quire.log.records.position import Position

TakeSnapshot: TypeAlias = Callable[[Bounds], list[Span]]

Surviving: TypeAlias = tuple[list[Span], dict[int, QuireError]]
"""Spans, and the error of each segment that cannot be looked at, by its number."""


def surviving_spans(manifest: LogManifest, take: TakeSnapshot) -> Surviving:
    """Return the spans of a log, and the errors of its other segments.

    Raises an error that is not one segment's, such as `NoSuchLogError` or `UnauthorizedError`.
    """
    try:
        return take(EVERYTHING), {}
    except (RetryError, IntegrityError, NoSuchLedgerError):
        first, *others = [each.number for each in manifest.segments] or [0]
        if not first:
            raise
        opened = [each.number for each in manifest.open_segments if each.number != first]
        sealed = [number for number in others if number not in opened]
    spans: list[Span] = []
    errors: dict[int, QuireError] = {}
    for numbers in ([first], sealed, *([number] for number in opened)):
        found, failed = _look(numbers, take)
        spans += found
        errors |= failed
    return spans, errors


def _look(numbers: Sequence[int], take: TakeSnapshot) -> Surviving:
    """Look at consecutive segments; in halves, if one of them cannot be looked at."""
    if not numbers:
        return [], {}
    bounds = Bounds(Position(numbers[0], 0, 0), Position(numbers[-1] + 1, 0, 0))
    try:
        return take(bounds), {}
    except (RetryError, IntegrityError, NoSuchLedgerError) as error:
        if len(numbers) == 1:
            return [], {numbers[0]: error}
    half = len(numbers) // 2
    before, behind = _look(numbers[:half], take), _look(numbers[half:], take)
    return before[0] + behind[0], before[1] | behind[1]
