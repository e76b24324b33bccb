"""The port for spans: a stretch of work with a name, attributes and an outcome. Silent by default.

The parts that do the work name it, and know nothing of OpenTelemetry. A span costs one ledger that
is opened, one takeover, one roll or one move, never one entry; the silent port costs a call. Spans
of records are a port of their own, `Messages`, which an application asks for.

A span that begins inside of another, in the same task, belongs to it. So the recoveries of a
takeover stand below it, and all of them below the span of the application. The work of a task that
lives as long as its log or bookie has no such parent: it is `alone`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol, TypeAlias

Value: TypeAlias = str | int | float | bool
Values: TypeAlias = Mapping[str, Value]
Note: TypeAlias = Callable[[str, Value], None]
"""Adds an attribute to a span that has begun."""

OPEN_LOG: Final = "quire.log.open"
"""`Client.open_log`: the takeover, and the memory of producers."""
TAKE_OVER: Final = "quire.log.takeover"
"""A leader takes a log over: it fences, recovers and seals the segments of the last leader."""
ROLL: Final = "quire.log.roll"
"""A leader begins a new segment and seals the one before."""
OPEN_LEDGER: Final = "quire.ledger.open"
"""A ledger is opened to be read: by a reader of its log, or by the application."""
RECOVER: Final = "quire.ledger.recovery"
"""A ledger is fenced, its end decided and its record closed."""
MOVE: Final = "quire.move"
"""A bookie fetches copies of a ledger that it was asked to make, and takes its places."""

NAMES: Final = (OPEN_LOG, TAKE_OVER, ROLL, OPEN_LEDGER, RECOVER, MOVE)

LOG: Final = "quire.log.name"
EPOCH: Final = "quire.log.epoch"
SEGMENT: Final = "quire.log.segment"
LEDGER: Final = "quire.ledger.id"
LAST_ENTRY: Final = "quire.ledger.last_entry"
BOOKIE: Final = "quire.bookie.id"
PLACES: Final = "quire.move.places"
REQUEST: Final = "quire.request.id"
"""The id that the log of slow requests names."""

OFFSET: Final = "quire.record.offset"
"""The offset of the first record of an append."""

ATTRIBUTES: Final = (LOG, EPOCH, SEGMENT, LEDGER, LAST_ENTRY, BOOKIE, PLACES, REQUEST, OFFSET)

Pairs: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""Headers of a record."""


def _ignore(name: str, value: Value) -> None:
    """Note nothing."""


_NOTHING: Final = nullcontext(_ignore)


class TracedAppend(Protocol):
    """An append of records in a trace."""

    headers: Pairs
    """The headers of the records."""

    def end(self, offset: int) -> None:
        """The records are in the log from an offset on."""
        ...

    def fail(self, error: BaseException) -> None:
        """The append ended with an error."""
        ...


class Traced(Protocol):
    """A record that was read."""

    @property
    def headers(self) -> Pairs:
        """Names and values."""
        ...


class Messages(Protocol):
    """Told of the records that a client appends and a consumer processes."""

    def send(self, log: str, count: int) -> TracedAppend | None:
        """Records are about to be appended. None outside of any trace."""
        ...

    def send_many(self, log: str) -> AbstractContextManager[Callable[[int, int | None], None]]:
        """Return the block of an append of unknown length; it gets what takes length and offset."""
        ...

    def process(
        self, log: str, records: Sequence[Traced], consumer: str | None = None
    ) -> AbstractContextManager[None]:
        """Return the block for a consumer's processing of records."""
        ...


def processing(
    spans: Spans, log: str, records: Sequence[Traced], consumer: str
) -> AbstractContextManager[object]:
    """Return the block for a consumer's processing of records: nothing without record spans."""
    if spans.messages is None:
        return _NOTHING
    return spans.messages.process(log, records, consumer)


class Spans:
    """Told where work begins and ends. Does nothing; `ProviderSpans` makes spans."""

    messages: Messages | None = None
    """Spans of records; None unless the application asked for them."""

    def begin(
        self, name: str, attributes: Values, *, alone: bool = False
    ) -> AbstractContextManager[Note]:
        """Return the block of a span; it gets what adds attributes. `alone`: without a parent."""
        return _NOTHING


NO_SPANS: Final = Spans()
"""The default: no spans."""
