"""The options of format `bookkeeper`, checked where they are given: every error names its option.

Pure: no clock and no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from quire.bookkeeper.pieces import EntryPlace
from quire.bookkeeper.uri import split_uri
from quire.errors import ConfigurationError
from quire.spark.bookkeeper.system import ForeignSystem, RecordPlace
from quire.spark.bookkeeper.systems import SYSTEMS
from quire.spark.options import Given, flag, names_of, positive, size_of
from quire.spark.packing import SPLIT_BYTES, PartitionLimits

FORMAT: Final = "bookkeeper"

_COMMON: Final = (
    "cluster", *SYSTEMS, "password", "columns", "splitBytes", "minPartitions", "fromPosition",
    "failOnDataLoss",
)  # fmt: skip
_BATCH: Final = ("toPosition",)
_STREAM: Final = ("startingOffsets", "maxEntriesPerTrigger")

Places = Mapping[int, RecordPlace]
"""Places by part."""


@dataclass(frozen=True, slots=True)
class ForeignOptions:
    """Options of a read of format `bookkeeper`."""

    cluster: str
    kind: str
    """The option that names the logs: a key of `SYSTEMS`."""
    logs: tuple[str, ...]
    """Their names in full."""
    columns: tuple[str, ...]
    password: bytes = field(default=b"", repr=False)
    limits: PartitionLimits = field(default_factory=PartitionLimits)
    first: Places = field(default_factory=dict)
    end: Places = field(default_factory=dict)
    is_latest: bool = False
    """Whether a stream begins with the messages that come after its start."""
    entries_per_trigger: int | None = None
    fail_on_data_loss: bool = True

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool = False) -> ForeignOptions:
        """Raises `ConfigurationError` naming the option that is wrong."""
        known = (*_COMMON, *(_STREAM if streaming else _BATCH))
        given = Given(options, known, "a streaming read of" if streaming else "a read of", FORMAT)
        cluster = given.required("cluster")
        _check_cluster(cluster)
        kind, system = _system(given)
        logs = given.get(kind, _logs_of(system, cluster), None) or ()
        places = _places_of(system)
        found = cls(
            cluster=cluster,
            kind=kind,
            logs=logs,
            columns=given.get("columns", _columns_of(system), tuple(system.columns)),
            password=given.get("password", str.encode, b""),
            limits=PartitionLimits(
                given.get("splitBytes", size_of, SPLIT_BYTES),
                given.get("minPartitions", positive, 1),
            ),
            first=given.get("fromPosition", places, {}),
            end=given.get("toPosition", places, {}),
            is_latest=given.get("startingOffsets", _is_latest, False),
            entries_per_trigger=given.get("maxEntriesPerTrigger", positive, None),
            fail_on_data_loss=given.get("failOnDataLoss", flag, True),
        )
        found._check_beginnings(given)
        return found

    def _check_beginnings(self, given: Given) -> None:
        given.at_most_one("fromPosition", ("startingOffsets",))
        for name in ("fromPosition", "toPosition"):
            if given.has(name) and len(self.logs) > 1:
                raise ConfigurationError(
                    f"option {name} is a place in one {self.kind}, and {len(self.logs)} are "
                    "given: name one"
                )

    @property
    def system(self) -> ForeignSystem:
        """The system of the logs."""
        return SYSTEMS[self.kind]

    @property
    def begins(self) -> Mapping[int, EntryPlace]:
        """By part, the entries with which a read begins."""
        return {part: place.before for part, place in self.first.items()}

    @property
    def ends(self) -> Mapping[int, EntryPlace]:
        """By part, the place after the entries that a batch reads."""
        return {part: place.after for part, place in self.end.items()}

    def wants(self, part: int, place: RecordPlace) -> bool:
        """Return whether a record is within the bounds."""
        first, end = self.first.get(part), self.end.get(part)
        return (first is None or place >= first) and (end is None or place < end)

    @property
    def is_bounded(self) -> bool:
        """Whether there are bounds."""
        return bool(self.first or self.end)

    def check_parts(self, parts: Collection[int]) -> None:
        """Raise `ConfigurationError` when a place is given for a part that does not exist."""
        for name, places in (("fromPosition", self.first), ("toPosition", self.end)):
            for part in sorted(places):
                if part not in parts:
                    known = ", ".join(map(str, sorted(parts))) or "none"
                    raise ConfigurationError(
                        f"option {name} names partition {part} of {self.kind} {self.logs[0]}: the "
                        f"partitions with entries are {known} (-1: it has no partitions)"
                    )

    def check_begun(self, begun: Collection[str]) -> None:
        """Raise `ConfigurationError` when a log that a query has begun has another name now.

        The query would take it for a new one, and read it again.
        """
        store, _ = split_uri(self.cluster)
        names = {*begun, *self.logs}
        if len(self.system.full_names(sorted(names), store)) < len(names):
            raise ConfigurationError(
                f"option {self.kind} names {', '.join(self.logs)}, and the query's checkpoint "
                f"{', '.join(sorted(begun))}: one log has two names, so begin a new checkpoint"
            )

    def with_columns(self, names: Sequence[str]) -> ForeignOptions:
        """Return the options with the columns of a schema that the reader was given.

        Raises `ConfigurationError` for a column that does not exist.
        """
        known = self.system.columns
        for name in names:
            if name not in known:
                raise ConfigurationError(
                    f"the schema has a column {name!r}: choose from {', '.join(known)}"
                )
        return replace(self, columns=tuple(names))


def read_schema(options: Mapping[str, str]) -> str:
    """Return the schema of the rows that these options read, as Spark writes it."""
    given = Given(options, (*_COMMON, *_BATCH, *_STREAM), "a read of", FORMAT)
    _, system = _system(given)
    columns = given.get("columns", _columns_of(system), tuple(system.columns))
    return ", ".join(f"`{name}` {system.columns[name].spark}" for name in columns)


def _system(given: Given) -> tuple[str, ForeignSystem]:
    kinds = [kind for kind in SYSTEMS if given.has(kind)]
    if not kinds:
        names = " or ".join(f".option({kind!r}, …)" for kind in SYSTEMS)
        raise ConfigurationError(f"format {FORMAT!r} needs {names}")
    given.at_most_one(kinds[0], kinds)
    return kinds[0], SYSTEMS[kinds[0]]


def _check_cluster(cluster: str) -> None:
    _, ledgers = split_uri(cluster)
    if ledgers is None:
        raise ConfigurationError(
            f"option cluster={cluster!r} names no ledgers of Apache BookKeeper: write "
            "zk://zoo1:2181/?ledgers=bookkeeper:/ledgers, or read quire's own logs with "
            "format('quire')"
        )


def _columns_of(system: ForeignSystem) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(names_of(text)))
        for name in found:
            if name not in system.columns:
                raise ValueError(f"{name!r} is not one of {', '.join(system.columns)}")
        return found

    return parse


def _logs_of(system: ForeignSystem, cluster: str) -> Callable[[str], Any]:
    store, _ = split_uri(cluster)

    def parse(text: str) -> tuple[str, ...]:
        return system.full_names(names_of(text), store)

    return parse


def _places_of(system: ForeignSystem) -> Callable[[str], Places]:
    def parse(text: str) -> Places:
        found: dict[int, RecordPlace] = {}
        for each in names_of(text):
            part, place = system.parse_place(each)
            if part in found:
                raise ValueError(f"partition {part} is named twice")
            found[part] = place
        return found

    return parse


def _is_latest(text: str) -> bool:
    if text not in ("earliest", "latest"):
        raise ValueError("write earliest or latest, or give a place in fromPosition")
    return text == "latest"
