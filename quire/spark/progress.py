"""How far a streaming query has come: per log a record offset, as Spark checkpoints it.

    {"orders": {"id": "5f0c…", "first": 0, "offset": 1200}, …}

`offset` is the next record's, `first` where the query began in this log, `id` the log's
identity: offsets of a deleted log mean nothing in a new log of the same name. Record
offsets never change and have no gaps, so a limit on records is a sum, and a batch that is planned
again after a crash is the same batch.

Before 4.2 Spark does not say where a batch begins when it asks where it ends. After a restart the
end is therefore found without knowing which logs the query has seen. Such a place is not `sure`:
its `first` holds only for a log that is new to the query.

Pure: no clock and no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from quire.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Place:
    """Where a query is in one log."""

    id: str
    first: int
    offset: int
    sure: bool = True
    """Whether `first` is known to be where the query began."""

    def at(self, offset: int) -> Place:
        """The place at another offset, told by a reader that knows this one."""
        return replace(self, offset=offset, sure=True)

    def unsure(self) -> Place:
        """The place, told by a reader that does not know whether the query has seen the log."""
        return replace(self, sure=False)


Progress: TypeAlias = dict[str, Place]


def to_json(progress: Progress) -> dict[str, Any]:
    """Return the progress as Spark stores it."""
    return {log: _as_dict(place) for log, place in sorted(progress.items())}


def _as_dict(place: Place) -> dict[str, Any]:
    found = asdict(place)
    if place.sure:
        del found["sure"]  # checkpoints of all versions look the same
    return found


def from_json(told: Mapping[str, Any]) -> Progress:
    """Return the progress that Spark stored.

    Raises `ConfigurationError` for the progress of another source.
    """
    try:
        return {log: Place(**place) for log, place in sorted(told.items())}
    except (AttributeError, TypeError):
        raise foreign_checkpoint(told, "quire") from None


def foreign_checkpoint(told: object, source: str) -> ConfigurationError:
    """Return the error of a checkpoint that a query of another source wrote."""
    return ConfigurationError(
        "option checkpointLocation has the offsets of another source or version: "
        f"{json.dumps(told)[:200]} are not places of format {source!r}. Give the query a "
        "checkpointLocation of its own"
    )


def start_of(start: Progress, log: str, end: Place) -> int:
    """Return where a batch that ends at `end` begins, also in a log that is new to the query.

    Spark does not write down where its first batch begins: after a crash it asks again, and the
    answer may differ by then. Spark does write down the end, which holds the beginning. The end of
    a log that was recreated holds the beginning of the new log.
    """
    begun = log in start and start[log].id == end.id
    if begun and (start[log].first == end.first or not end.sure):
        return start[log].offset
    return end.first


def reached(start: Progress, end: Progress) -> Progress:
    """Return where a query is after a batch: at its end, and never before its beginning.

    In a log that the end does not name, the query is where it was. Spark has written down nothing
    of that log, so the query begins there. An unsure end may lie before the beginning, when it came
    from bookies that know less. The batch is empty then, and the next one begins where this one
    began.
    """
    places = {log: Place(place.id, place.offset, place.offset) for log, place in start.items()}
    for log, place in end.items():
        begin = start_of(start, log, place)
        places[log] = place if begin <= place.offset else Place(place.id, begin, begin)
    return places


def available(start: Progress, ends: Progress) -> int:
    """Return how many records there are between two places."""
    return sum(end.offset - start_of(start, log, end) for log, end in ends.items())


def admit(start: Progress, ends: Progress, records_max: int | None) -> Progress:
    """Return the ends of a batch of at most so many records, shared fairly between the logs."""
    available = {log: end.offset - start_of(start, log, end) for log, end in ends.items()}
    if records_max is None or sum(available.values()) <= records_max:
        return ends
    granted: Progress = {}
    left, waiting = records_max, sorted(available, key=lambda log: (available[log], log))
    for index, log in enumerate(waiting):
        share = min(available[log], -(-left // (len(waiting) - index)))
        left -= share
        granted[log] = ends[log].at(start_of(start, log, ends[log]) + share)
    return granted
