"""The options of format `quire`, checked where they are given: every error names its option.

Spark hands over option names in lower case and values as text. Pure: no clock and no I/O.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

from quire.entry import LedgerId
from quire.errors import ConfigurationError, InvalidRequestError
from quire.ledger.quorum import Replication
from quire.log.manifest.options import LogOptions
from quire.log.reading.bounds import EVERYTHING, OFFSET_MAX, TIME_MAX_MS, Bounds
from quire.log.records.batch import Compression
from quire.log.records.position import Position, to_ms
from quire.spark.holding import DELAY_SECONDS, BatchMinimum
from quire.spark.offsets import (
    EVERYWHERE_FIRST,
    EVERYWHERE_LAST,
    End,
    Offsets,
    parse_ending,
    parse_starting,
)
from quire.spark.packing import SPLIT_BYTES, PartitionLimits
from quire.units import parse_bytes, parse_seconds

T = TypeVar("T")

LOG_COLUMNS: Final = {
    "log": "string",
    "segment": "long",
    "ledger": "long",
    "entry": "long",
    "slot": "int",
    "offset": "long",
    "epoch": "long",
    "timestamp": "timestamp",
    "txid": "long",
    "payload": "binary",
}
"""One row per record; `timestamp` is when the leader made the batch, `txid` may be null."""

GIVEN_COLUMNS: Final = {
    "key": "binary",
    "headers": "array<struct<name: string, value: binary>>",
    "event_time": "timestamp",
}
"""Attributes of a record, for queries that name the column."""

LEDGER_COLUMNS: Final = {"ledger": "long", "entry": "long", "payload": "binary"}
"""One row per entry of a raw ledger."""

_FLAGS: Final = {"true": True, "false": False}

_READ: Final = (
    "cluster", "log", "ledger", "password", "keyFile", "columns", "splitBytes",
    "minPartitions", "maxRecordsPerPartition",
    "fromPosition", "toPosition", "fromOffset", "toOffset", "fromTime", "toTime", "failOnDataLoss",
    "startingOffsets", "startingTimestamp", "endingOffsets", "subscribePattern",
)  # fmt: skip
_ENDS: Final = ("toPosition", "toOffset", "toTime", "endingOffsets")
_STREAM: Final = ("maxRecordsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "cursor")
_WRITE: Final = (
    "cluster", "log", "password", "keyFile", "job", "sequence", "after", "compression", "ensemble",
    "writeQuorum", "ackQuorum", "checkpointLocation", "path", "columns",
)  # fmt: skip

_ONE_BEGINNING: Final = (
    "startingOffsets", "startingTimestamp", "fromPosition", "fromOffset", "fromTime"
)  # fmt: skip
_ONE_END: Final = ("endingOffsets", "toPosition", "toOffset", "toTime")

_OF_KAFKA: Final = {
    "kafka.bootstrap.servers": "cluster",
    "subscribe": "log",
    "assign": "log",
    "topic": "log",
    "maxOffsetsPerTrigger": "maxRecordsPerTrigger",
    "startingOffsetsByTimestamp": "startingTimestamp",
    "endingTimestamp": "toTime",
    "endingOffsetsByTimestamp": "toTime",
    "kafka.group.id": "cursor",
    "groupIdPrefix": "cursor",
}
"""Options of Spark's Kafka source that have another name here."""


class Given:
    """The options of one call, by the names they are documented under."""

    def __init__(
        self, options: Mapping[str, str], known: Iterable[str], what: str, source: str = "quire"
    ) -> None:
        self._source = source
        names = {name.lower(): name for name in known}
        for key in sorted(options):
            if key.lower() not in names:
                ours = {name.lower(): ours for name, ours in _OF_KAFKA.items()}.get(key.lower())
                known_names = ours if ours in names.values() else ", ".join(sorted(names.values()))
                raise ConfigurationError(
                    f"option {key!r} is not one of {what} format {source!r}: use {known_names}"
                )
        self._values = {names[key.lower()]: value for key, value in options.items()}

    def required(self, name: str) -> str:
        """Return an option that has to be given. Raises `ConfigurationError` naming it."""
        if not self._values.get(name):
            raise ConfigurationError(f"format {self._source!r} needs .option({name!r}, …)")
        return self._values[name]

    def get(self, name: str, parse: Callable[[str], T], default: T) -> T:
        """Return an option as `parse` understands it. Raises `ConfigurationError` naming it."""
        if name not in self._values:
            return default
        try:
            return parse(self._values[name])
        except (ValueError, InvalidRequestError) as error:
            raise ConfigurationError(
                f"option {name}={self._values[name]!r} is not understood: {error}"
            ) from None

    def at_most_one(self, name: str, others: Iterable[str]) -> None:
        """Raise `ConfigurationError` when an option is given together with one of the others."""
        for other in others:
            if other != name and self.has(name) and self.has(other):
                raise ConfigurationError(f"options {name} and {other} say the same: give one")

    def has(self, name: str) -> bool:
        """Whether an option was given."""
        return name in self._values


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a read. `logs` are names and patterns (`*`, `?`, `[…]`), `pattern` is a regular
    expression over whole names.
    """

    cluster: str
    logs: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    ledger: LedgerId | None = None
    password: bytes = field(default=b"", repr=False)
    columns: tuple[str, ...] = tuple(LOG_COLUMNS)
    limits: PartitionLimits = field(default_factory=PartitionLimits)
    bounds: Bounds = EVERYTHING
    starting: Offsets = EVERYWHERE_FIRST
    ending: Offsets = EVERYWHERE_LAST
    records_per_trigger: int | None = None
    minimum: BatchMinimum = field(default_factory=BatchMinimum)
    fail_on_data_loss: bool = True
    cursor: str | None = None
    key_file: str | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool = False) -> ReadOptions:
        """Raises `ConfigurationError` naming the option that is wrong."""
        known = (*(name for name in _READ if name not in _ENDS), *_STREAM) if streaming else _READ
        given = Given(options, known, "a streaming read of" if streaming else "a read of")
        ledger = given.get("ledger", _natural, None)
        if ledger is not None and (streaming or given.has("log") or given.has("subscribePattern")):
            raise ConfigurationError(
                "option 'ledger' reads one raw ledger, in a batch: give it without 'log'"
            )
        given.at_most_one(_ONE_BEGINNING[0], _ONE_BEGINNING)
        given.at_most_one(_ONE_BEGINNING[1], _ONE_BEGINNING)
        given.at_most_one(_ONE_END[0], _ONE_END)
        return cls(
            cluster=given.required("cluster"),
            logs=() if ledger is not None else _logs(given),
            pattern=given.get("subscribePattern", _regex, None),
            ledger=ledger,
            password=given.get("password", str.encode, b""),
            columns=given.get("columns", _columns_of(ledger), _usual_columns(ledger)),
            limits=_limits(given),
            bounds=_bounds(given),
            starting=given.get(
                "startingOffsets", parse_starting if streaming else _batch_start, EVERYWHERE_FIRST
            ),
            ending=given.get("endingOffsets", parse_ending, EVERYWHERE_LAST),
            records_per_trigger=given.get("maxRecordsPerTrigger", positive, None),
            minimum=_minimum(given),
            fail_on_data_loss=given.get("failOnDataLoss", flag, True),
            cursor=given.get("cursor", _name, None),
            key_file=given.get("keyFile", str, None),
        )

    def with_columns(self, names: Sequence[str]) -> ReadOptions:
        """Return the options with the columns of a schema that the reader was given.

        Raises `ConfigurationError` for a column that does not exist.
        """
        known = _schema_of(self.ledger)
        for name in names:
            if name not in known:
                raise ConfigurationError(
                    f"the schema has a column {name!r}: choose from {', '.join(known)}"
                )
        return replace(self, columns=tuple(names))

    def select(self, names: Iterable[str]) -> list[str]:
        """Return which of a cluster's logs are meant; a name without a pattern always is."""
        existing = sorted(names)
        chosen: dict[str, None] = {}
        for wanted in self.logs:
            if _has_signs(wanted):
                chosen.update((name, None) for name in existing if fnmatchcase(name, wanted))
            else:
                chosen[wanted] = None
        if self.pattern is not None:
            chosen.update((name, None) for name in existing if self.pattern.fullmatch(name))
        return list(chosen)

    def means(self, log: str) -> bool:
        """Return whether a log is meant, if it exists."""
        return log in self.select([log])

    def bounds_of(self, log: str) -> Bounds:
        """Return the bounds in a log: the common ones, and the offsets of this log."""
        first, end = self.starting.number_of(log), self.ending.number_of(log)
        return self.bounds & Bounds(first_offset=first or 0, end_offset=_or(end, OFFSET_MAX))

    @property
    def is_unbounded(self) -> bool:
        """Whether the options leave nothing out."""
        offsets = (self.starting, self.ending)
        return self.bounds == EVERYTHING and offsets == (EVERYWHERE_FIRST, EVERYWHERE_LAST)

    def check_offsets(self, logs: Collection[str]) -> None:
        """Raise `ConfigurationError` when offsets are given for a log that is not among `logs`."""
        self.starting.check("startingOffsets", logs)
        self.ending.check("endingOffsets", logs)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where to write, and how. `job` and `sequence` name the work, so that it is done once."""

    cluster: str
    log: str
    job: str | None
    sequence: int
    log_options: LogOptions
    key_file: str | None = None
    after: int | None = None
    """The sequence that the job must have come to before; None: any."""

    @classmethod
    def parse(cls, options: Mapping[str, str], *, routed: bool = False) -> WriteOptions:
        """Raises `ConfigurationError` naming the option that is wrong. Routed rows name their log
        themselves.
        """
        given = Given(options, _WRITE, "a write to")
        usual = Replication()
        replication = Replication(
            given.get("ensemble", positive, usual.ensemble),
            given.get("writeQuorum", positive, usual.write_quorum),
            given.get("ackQuorum", positive, usual.ack_quorum),
        )
        if routed:
            _check_routed(given)
        else:
            given.required("log")
        given.get("columns", _only_payload, None)
        return cls(
            cluster=given.required("cluster"),
            log=given.get("log", _one_name, ""),
            job=given.get("job", _name, None),
            sequence=given.get("sequence", _natural, 0),
            log_options=LogOptions(
                replication=replication,
                password=given.get("password", str.encode, b""),
                compression=given.get("compression", Compression, Compression.NONE),
            ),
            key_file=given.get("keyFile", str, None),
            after=given.get("after", _natural, None),
        )

    def to(self, log: str) -> WriteOptions:
        """Return the options of a write to another log."""
        return replace(self, log=log)


def _check_routed(given: Given) -> None:
    for name in ("log", "after"):
        if given.has(name):
            raise ConfigurationError(
                f"leave out option {name}: a column log names the log of each row"
            )
    if not given.has("job"):
        raise ConfigurationError(
            "a write with a column log needs .option('job', …): logs are written one after the "
            "other, and the job, repeated, completes a write that failed between two of them"
        )


def read_schema(options: Mapping[str, str]) -> str:
    """Return the schema of the rows that these options read, as Spark writes it."""
    given = Given(options, (*_READ, *_STREAM), "a read of")
    ledger = given.get("ledger", _natural, None)
    kinds = _schema_of(ledger)
    columns = given.get("columns", _columns_of(ledger), _usual_columns(ledger))
    return ", ".join(f"{name} {kinds[name]}" for name in columns)


def _usual_columns(ledger: LedgerId | None) -> tuple[str, ...]:
    return tuple(LOG_COLUMNS if ledger is None else LEDGER_COLUMNS)


def _schema_of(ledger: LedgerId | None) -> dict[str, str]:
    return {**LOG_COLUMNS, **GIVEN_COLUMNS} if ledger is None else LEDGER_COLUMNS


def _columns_of(ledger: LedgerId | None) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        columns = tuple(dict.fromkeys(names_of(text)))
        for name in columns:
            if name not in _schema_of(ledger):
                raise ValueError(f"{name!r} is not one of {', '.join(_schema_of(ledger))}")
        return columns

    return parse


def _bounds(given: Given) -> Bounds:
    everything = EVERYTHING
    return Bounds(
        first=given.get("fromPosition", Position.parse, everything.first),
        end=given.get("toPosition", Position.parse, everything.end),
        first_offset=given.get("fromOffset", _natural, None) or 0,
        end_offset=_or(given.get("toOffset", _natural, None), everything.end_offset),
        first_ms=given.get(
            "startingTimestamp", time_ms, given.get("fromTime", time_ms, everything.first_ms)
        ),
        end_ms=given.get("toTime", time_ms, everything.end_ms),
    )


def _limits(given: Given) -> PartitionLimits:
    return PartitionLimits(
        given.get("splitBytes", size_of, SPLIT_BYTES),
        given.get("minPartitions", positive, 1),
        given.get("maxRecordsPerPartition", positive, None),
    )


def _minimum(given: Given) -> BatchMinimum:
    records_min = given.get("minOffsetsPerTrigger", positive, 0)
    records_max = given.get("maxRecordsPerTrigger", positive, None)
    if records_max is not None and records_min > records_max:
        raise ConfigurationError(
            f"minOffsetsPerTrigger={records_min} is above maxRecordsPerTrigger={records_max}: "
            "no batch could be so large"
        )
    if given.has("maxTriggerDelay") and not records_min:
        raise ConfigurationError(
            "option maxTriggerDelay has nothing to wait for: give minOffsetsPerTrigger, too"
        )
    return BatchMinimum(records_min, given.get("maxTriggerDelay", _delay, DELAY_SECONDS))


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def time_ms(text: str) -> int:
    """Return the Unix milliseconds of a time: itself milliseconds, or an ISO time with its zone.

    A time between two milliseconds counts as the later one. Raises `ValueError`.
    """
    if text.isascii() and text.isdigit():
        if len(text) == len("20261121"):
            raise ValueError("it may be a date or milliseconds: write 2026-11-21T10:00:00Z")
        return _milliseconds(text)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("give the time zone, as in 2026-11-21T10:00:00Z")
    return to_ms(moment)


def _milliseconds(text: str) -> int:
    if int(text) > TIME_MAX_MS:
        raise ValueError(f"milliseconds go up to {TIME_MAX_MS}")
    return int(text)


def _batch_start(text: str) -> Offsets:
    found = parse_starting(text)
    if End.LATEST in (found.rest, *(mark for _, mark in found.by_log)):
        raise ValueError("a batch that begins at 'latest' has no records: write earliest")
    return found


def _delay(text: str) -> float:
    if text.replace(".", "").isdigit():  # Kafka's source means milliseconds, quire seconds
        raise ValueError("write a unit, as in 15m or 30s")
    seconds = parse_seconds(text)
    if not 0 < seconds < math.inf:
        raise ValueError("write a time above 0, as in 15m or 30s")
    return seconds


def _regex(text: str) -> Any:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"write a regular expression as Python has them: {error}") from None


def _logs(given: Given) -> tuple[str, ...]:
    if given.has("subscribePattern") and not given.has("log"):
        return ()
    given.required("log")
    return given.get("log", names_of, ())


def names_of(text: str) -> tuple[str, ...]:
    """Return the names in a list with commas, at least one. Raises `ValueError`."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("write at least one name")
    return names


def _name(text: str) -> Any:
    if not text:
        raise ValueError("write a name, or leave the option out")
    return text


def is_pattern(name: str) -> bool:
    """Whether option `log` understands a name as something else than this one log."""
    return name != name.strip() or "," in name or _has_signs(name)


def _has_signs(name: str) -> bool:
    return any(sign in name for sign in "*?[")


def _one_name(text: str) -> str:
    if is_pattern(text):
        raise ValueError("a write goes to one log, named without a pattern or blanks around it")
    return text


def _only_payload(text: str) -> Any:
    """A view that SQL inserts into has the options of a read."""
    if names_of(text) != ("payload",):
        raise ValueError("a view that takes records has columns 'payload'")


def _natural(text: str) -> Any:
    if not (text.isascii() and text.isdigit()):
        raise ValueError("write a whole number, 0 or more")
    return int(text)


def positive(text: str) -> Any:
    """Return a whole number above 0. Raises `ValueError`."""
    if _natural(text) == 0:
        raise ValueError("write a whole number above 0")
    return int(text)


def size_of(text: str) -> int:
    """Return a size in bytes, above 0. Raises `ValueError`."""
    size = parse_bytes(text)
    if size < 1:
        raise ValueError("write a size above 0, such as 64MiB")
    return size


def flag(text: str) -> bool:
    """Return whether a text is true. Raises `ValueError`."""
    if text.lower() not in _FLAGS:
        raise ValueError("write true or false")
    return _FLAGS[text.lower()]
