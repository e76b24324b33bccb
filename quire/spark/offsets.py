"""Where to begin and to end, as Spark's Kafka source says it: `startingOffsets`, `endingOffsets`.

    earliest                             every log from its first record
    latest                               every log from its end
    {"orders": 1200, "payments": -1}     record numbers by log; -2 is earliest, -1 is latest

A log that the JSON does not name begins at its first record and ends at its last. A log has one
sequence of records, where a topic has partitions.

Pure: no clock and no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from quire.errors import ConfigurationError
from quire.log.reading.bounds import OFFSET_MAX


class End(Enum):
    """An end of a log."""

    EARLIEST = "earliest"
    LATEST = "latest"


Mark: TypeAlias = int | End
"""An offset, or an end of the log."""

_NUMBERS: Final = {-2: End.EARLIEST, -1: End.LATEST}
"""As Kafka's JSON has them."""

_WORDS: Final = {end.value: end for end in End}


@dataclass(frozen=True, slots=True)
class Offsets:
    """A mark for each named log, and `rest` for every other log."""

    rest: End
    by_log: tuple[tuple[str, Mark], ...] = ()

    def of(self, log: str) -> Mark:
        """Return the mark of a log."""
        return dict(self.by_log).get(log, self.rest)

    def number_of(self, log: str) -> int | None:
        """Return the offset that is given for a log; None for an end of it."""
        mark = self.of(log)
        return mark if isinstance(mark, int) else None

    def check(self, option: str, logs: Collection[str]) -> None:
        """Raise `ConfigurationError` for a named log that is not read: its offset would be lost."""
        for name, _ in self.by_log:
            if name not in logs:
                raise ConfigurationError(
                    f"option {option} names log {name!r}, which options 'log' and "
                    f"'subscribePattern' do not: they choose {', '.join(sorted(logs)) or 'none'}"
                )


EVERYWHERE_FIRST: Final = Offsets(End.EARLIEST)
EVERYWHERE_LAST: Final = Offsets(End.LATEST)


def parse_starting(text: str) -> Offsets:
    """Return what `startingOffsets` says. Raises `ValueError`."""
    return _parse(text, End.EARLIEST)


def parse_ending(text: str) -> Offsets:
    """Return what `endingOffsets` says. Raises `ValueError`."""
    found = _parse(text, End.LATEST)
    if End.EARLIEST in (found.rest, *(mark for _, mark in found.by_log)):
        raise ValueError("a read that ends at 'earliest' has no records: write latest, or numbers")
    return found


def _parse(text: str, rest: End) -> Offsets:
    word = text.strip().lower()
    if word in _WORDS:
        return Offsets(_WORDS[word])
    try:
        told = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError:
        told = None
    if not isinstance(told, dict):
        raise ValueError("write earliest, latest, or JSON such as " + '{"orders": 1200}')
    return Offsets(rest, tuple((log, _mark(log, value)) for log, value in sorted(told.items())))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object. Raises `ValueError` for a log named twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"log {twice!r} is named twice: give one record number for it")
    return found


def _mark(log: str, value: Any) -> Mark:
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if isinstance(value, int) and not isinstance(value, bool):
        if value in _NUMBERS:
            return _NUMBERS[value]
        if 0 <= value <= OFFSET_MAX:
            return value
    if isinstance(value, dict):
        raise ValueError(f"a log has no partitions: write one record number for {log!r}")
    raise ValueError(
        f"{value!r} for {log!r} is neither a record number nor -2 (earliest) nor -1 (latest)"
    )
