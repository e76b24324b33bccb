"""The options of format `quire`, checked where they are given: every error names its option.

Spark hands over option names in lower case and values as text. Pure: no clock and no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

from quire.entry import LedgerId
from quire.errors import ConfigurationError, InvalidRequestError
from quire.ledger.quorum import Replication
from quire.log.manifest.options import LogOptions
from quire.log.reading.bounds import EVERYTHING, Bounds
from quire.log.records.batch import Compression
from quire.log.records.position import Position, to_ms
from quire.spark.packing import SPLIT_BYTES, PartitionLimits

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

LEDGER_COLUMNS: Final = {"ledger": "long", "entry": "long", "payload": "binary"}
"""One row per entry of a raw ledger."""

_FLAGS: Final = {"true": True, "false": False}

_READ: Final = (
    "cluster", "log", "ledger", "password", "keyFile", "columns", "splitBytes",
    "minPartitions", "maxRecordsPerPartition",
    "fromPosition", "toPosition", "fromOffset", "toOffset", "fromTime", "toTime", "failOnDataLoss",
)  # fmt: skip
_ENDS: Final = ("toPosition", "toOffset", "toTime")
_STREAM: Final = ("maxRecordsPerTrigger", "cursor")
_WRITE: Final = (
    "cluster", "log", "password", "keyFile", "job", "sequence", "after", "compression", "ensemble",
    "writeQuorum", "ackQuorum", "checkpointLocation", "path", "columns",
)  # fmt: skip


class Given:
    """The options of one call, by the names they are documented under."""

    def __init__(self, options: Mapping[str, str], known: Iterable[str], what: str) -> None:
        names = {name.lower(): name for name in known}
        for key in sorted(options):
            if key.lower() not in names:
                raise ConfigurationError(
                    f"option {key!r} is not one of {what} format 'quire': use "
                    f"{', '.join(sorted(names.values()))}"
                )
        self._values = {names[key.lower()]: value for key, value in options.items()}

    def required(self, name: str) -> str:
        """Return an option that has to be given. Raises `ConfigurationError` naming it."""
        if not self._values.get(name):
            raise ConfigurationError(f"format 'quire' needs .option({name!r}, …)")
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

    def has(self, name: str) -> bool:
        """Whether an option was given."""
        return name in self._values


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a read. `logs` are names and patterns (`*`, `?`, `[…]`)."""

    cluster: str
    logs: tuple[str, ...] = ()
    ledger: LedgerId | None = None
    password: bytes = field(default=b"", repr=False)
    columns: tuple[str, ...] = tuple(LOG_COLUMNS)
    limits: PartitionLimits = field(default_factory=PartitionLimits)
    bounds: Bounds = EVERYTHING
    records_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    cursor: str | None = None
    key_file: str | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool = False) -> ReadOptions:
        """Raises `ConfigurationError` naming the option that is wrong."""
        known = (*(name for name in _READ if name not in _ENDS), *_STREAM) if streaming else _READ
        given = Given(options, known, "a streaming read of" if streaming else "a read of")
        ledger = given.get("ledger", _natural, None)
        if ledger is not None and (streaming or given.has("log")):
            raise ConfigurationError(
                "option 'ledger' reads one raw ledger, in a batch: give it without 'log'"
            )
        return cls(
            cluster=given.required("cluster"),
            logs=() if ledger is not None else _logs(given),
            ledger=ledger,
            password=given.get("password", str.encode, b""),
            columns=given.get("columns", _columns_of(ledger), tuple(_schema_of(ledger))),
            limits=_limits(given),
            bounds=_bounds(given),
            records_per_trigger=given.get("maxRecordsPerTrigger", _positive, None),
            fail_on_data_loss=given.get("failOnDataLoss", _flag, True),
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
            if any(sign in wanted for sign in "*?["):
                chosen.update((name, None) for name in existing if fnmatchcase(name, wanted))
            else:
                chosen[wanted] = None
        return list(chosen)


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
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Raises `ConfigurationError` naming the option that is wrong."""
        given = Given(options, _WRITE, "a write to")
        usual = Replication()
        replication = Replication(
            given.get("ensemble", _positive, usual.ensemble),
            given.get("writeQuorum", _positive, usual.write_quorum),
            given.get("ackQuorum", _positive, usual.ack_quorum),
        )
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


def read_schema(options: Mapping[str, str]) -> str:
    """Return the schema of the rows that these options read, as Spark writes it."""
    given = Given(options, (*_READ, *_STREAM), "a read of")
    ledger = given.get("ledger", _natural, None)
    kinds = _schema_of(ledger)
    columns = given.get("columns", _columns_of(ledger), tuple(kinds))
    return ", ".join(f"{name} {kinds[name]}" for name in columns)


def _schema_of(ledger: LedgerId | None) -> dict[str, str]:
    return LOG_COLUMNS if ledger is None else LEDGER_COLUMNS


def _columns_of(ledger: LedgerId | None) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        columns = tuple(dict.fromkeys(_names(text)))
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
        first_ms=given.get("fromTime", time_ms, everything.first_ms),
        end_ms=given.get("toTime", time_ms, everything.end_ms),
    )


def _limits(given: Given) -> PartitionLimits:
    return PartitionLimits(
        given.get("splitBytes", _positive, SPLIT_BYTES),
        given.get("minPartitions", _positive, 1),
        given.get("maxRecordsPerPartition", _positive, None),
    )


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def time_ms(text: str) -> int:
    """Return the Unix milliseconds of an ISO time with its zone: the first that are not before it.

    Raises `ValueError`.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("give the time zone, as in 2026-11-21T10:00:00Z")
    return to_ms(moment)


def _logs(given: Given) -> tuple[str, ...]:
    given.required("log")
    return given.get("log", _names, ())


def _names(text: str) -> tuple[str, ...]:
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
    return name != name.strip() or any(sign in name for sign in "*?[,")


def _one_name(text: str) -> str:
    if is_pattern(text):
        raise ValueError("a write goes to one log, named without a pattern or blanks around it")
    return text


def _only_payload(text: str) -> Any:
    """A view that SQL inserts into has the options of a read."""
    if _names(text) != ("payload",):
        raise ValueError("a view that takes records has columns 'payload'")


def _natural(text: str) -> Any:
    if not (text.isascii() and text.isdigit()):
        raise ValueError("write a whole number, 0 or more")
    return int(text)


def _positive(text: str) -> Any:
    if _natural(text) == 0:
        raise ValueError("write a whole number above 0")
    return int(text)


def _flag(text: str) -> bool:
    if text.lower() not in _FLAGS:
        raise ValueError("write true or false")
    return _FLAGS[text.lower()]
