"""Options of a log's leader, with the arithmetic behind each default.

Options in `SETTINGS` can also be stored in the log's manifest. There they hold for every leader and
override the leader's own options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from quire.checked import check_types
from quire.entry import DigestKind
from quire.errors import ConfigurationError, InvalidReplicationError
from quire.ledger.domains import Placement
from quire.ledger.quorum import Replication
from quire.log.manifest.jobs import JOBS_LIMIT, JOBS_MAX, JOBS_SECONDS
from quire.log.records.batch import BATCH_BYTES_MAX, Compression
from quire.log.records.encryption import ENCRYPTION_BYTES
from quire.log.records.keyring import Keyring
from quire.log.records.producers import PRODUCER_SECONDS, PRODUCERS_LIMIT, PRODUCERS_MAX
from quire.units import parse_bytes, parse_seconds

E = TypeVar("E", bound=StrEnum)

READ_NEEDS_PASSWORD: Final = "read_needs_password"
"""The name of the option, as a log stores it."""

READS_NEED_ONE: Final = (
    "reads of the log need its password (read_needs_password), and none was given: give "
    "LogOptions(password=…), or --password or QUIRE_PASSWORD"
)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How a leader writes. Sizes in bytes, times in seconds.

    Raises `ConfigurationError` for a value that cannot work, or of another type.
    """

    replication: Replication = field(default_factory=Replication)
    placement: Placement | None = None
    """Where the copies may be, as `require=rack:2`; None: as the client's `LedgerOptions` say."""
    digest: DigestKind = DigestKind.CRC32C
    password: bytes = field(default=b"", repr=False)
    read_needs_password: bool = False
    """Whether bookies give entries of new segments only to peers that know the password: an option
    of the log, from the first leader with it on."""

    roll_bytes: int = 256 * 1024 * 1024
    """A segment is rolled when it holds as much; a reader of one segment needs a few seconds."""

    roll_entries: int = 1_000_000
    roll_seconds: float = 4 * 3600.0
    """…or is as old: what retention waits for at most beyond its own time."""

    batch_bytes: int = 64 * 1024
    """A batch is cut here. A ledger run carries 1 MiB, so sixteen of them travel together."""

    batch_records: int = 1024
    compression: Compression = Compression.NONE

    keyring: Keyring | None = field(default=None, repr=False)
    """Encrypts every batch with the keyring's current key; None leaves them plain."""

    records_in_flight_max: int = 65_536
    """Records that were submitted and are not confirmed; a submit waits for room beyond them."""

    bytes_in_flight_max: int = 16 * 1024 * 1024

    retention_seconds: float | None = None
    """Trim sealed segments after this age of their last record; None keeps them."""

    retention_bytes: int | None = None
    """Oldest sealed segments are trimmed as long as the other sealed ones hold as much."""

    retention_cursors: bool = False
    """Whether both wait for the slowest of the log's cursors."""

    retention_interval: float = 60.0
    """Seconds between two checks of retention."""

    producers_max: int = PRODUCERS_MAX
    """Number of producers to remember, at most `PRODUCERS_LIMIT`."""

    producers_seconds: float = PRODUCER_SECONDS
    """The shortest time that a forgotten producer is rejected."""

    jobs_max: int = JOBS_MAX
    """Number of jobs to remember, at most `JOBS_LIMIT`: an option of the log."""

    jobs_seconds: float = JOBS_SECONDS
    """The shortest time that a forgotten job is rejected: an option of the log."""

    rest_seconds: float | None = 30.0
    """A handle without a new record for as long gives its memory back, until it is used again; None
    keeps it. A leader at rest learns some seconds later of other options and of another leader."""

    open_timeout: float = 60.0
    """A take-over, a repair or a close gives up after so long without bookies or metadata."""

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "compression", _member(Compression, "compression", self.compression)
        )
        object.__setattr__(self, "digest", _member(DigestKind, "digest", self.digest))
        check_types(self)
        for name in self.__slots__:
            value = getattr(self, name)
            may_be_zero = name == "retention_bytes" or isinstance(value, bool)
            if isinstance(value, (int, float)) and not (value > 0 or (may_be_zero and value == 0)):
                allowed = "zero or positive" if may_be_zero else "positive"
                raise ConfigurationError(f"{name} must be {allowed}, not {value}")
        if self.read_needs_password and not self.password:
            raise ConfigurationError(READS_NEED_ONE)
        self._check_at_most("producers_max", PRODUCERS_LIMIT)
        self._check_at_most("jobs_max", JOBS_LIMIT)
        body = self.batch_bytes + 4 * self.batch_records
        if body > self.body_bytes_max:
            raise ConfigurationError(
                f"batch_bytes and four bytes for each of batch_records are {body} bytes, "
                f"an entry holds {self.body_bytes_max}"
            )

    def _check_at_most(self, name: str, limit: int) -> None:
        if getattr(self, name) > limit:
            raise ConfigurationError(f"{name} must be at most {limit}, not {getattr(self, name)}")

    @property
    def body_bytes_max(self) -> int:
        """Largest body of a batch, unpacked."""
        return BATCH_BYTES_MAX - (ENCRYPTION_BYTES if self.keyring is not None else 0)

    def with_stored(self, settings: Mapping[str, str]) -> LogOptions:
        """Return the options with the options stored in a log laid over them.

        Args:
            settings: the stored options, by name, as text.

        Returns:
            Options that a leader of the log would use.

        Raises:
            ConfigurationError: a name or a value is not valid.
        """
        return replace(self, **{name: _parse(name, text) for name, text in settings.items()})


_FLAGS: Final = {"true": True, "false": False}


def _flag(text: str) -> bool:
    if text not in _FLAGS:
        raise ValueError("write true or false")
    return _FLAGS[text]


STORED_OPTIONS: Final[
    dict[str, Callable[[str], Replication | Placement | int | float | str | bool]]
] = {
    "replication": Replication.parse,
    "placement": Placement.parse,
    "roll_bytes": parse_bytes,
    "roll_entries": int,
    "roll_seconds": parse_seconds,
    "batch_bytes": parse_bytes,
    "batch_records": int,
    "compression": str,
    READ_NEEDS_PASSWORD: _flag,
    "retention_seconds": parse_seconds,
    "retention_bytes": parse_bytes,
    "retention_cursors": _flag,
    "producers_max": int,
    "producers_seconds": parse_seconds,
    "jobs_max": int,
    "jobs_seconds": parse_seconds,
}


def of_log(settings: Mapping[str, str]) -> LogOptions:
    """Return the options stored in a log, for programs that do not write it: with the defaults
    for all others, and a stand-in for a password.

    Raises `ConfigurationError` for a name or a value that is not valid.
    """
    return LogOptions(password=b"any").with_stored(settings)


def stored_text(name: str, text: str) -> str:
    """Return the text of an option as a manifest stores it: durations and sizes without units.

    Programs before version 0.2 read plain numbers only. Raises `ConfigurationError`.
    """
    parse = STORED_OPTIONS.get(name)
    has_units = parse in (parse_bytes, parse_seconds) and not _is_plain(text)
    return str(_parse(name, text)) if has_units else text


def as_stored(options: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of options as a manifest stores them. Raises `ConfigurationError`.

    A value that is not text stays as it is: the manifest refuses it.
    """
    if not isinstance(options, Mapping):
        raise ConfigurationError(
            f"options of a log are text by name, not {type(options).__name__}: give a mapping, as "
            "{'roll_seconds': '1h'}"
        )
    return {
        name: stored_text(name, text) if isinstance(text, str) else text
        for name, text in options.items()
    }


def _is_plain(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal() or not text


def _parse(name: str, text: str) -> Any:
    if name not in STORED_OPTIONS:
        raise ConfigurationError(
            f"a log has no option {name!r}, only {', '.join(sorted(STORED_OPTIONS))}"
        )
    try:
        return STORED_OPTIONS[name](text)
    except (ValueError, InvalidReplicationError) as error:
        raise ConfigurationError(f"option {name}={text!r} does not parse: {error}") from error


def _member(kind: type[E], what: str, name: str) -> E:
    """Return the choice of a name. Raises `ConfigurationError` for a name that is none."""
    try:
        return kind(name)
    except ValueError as error:
        known = ", ".join(each.value for each in kind)
        raise ConfigurationError(f"{what} {name!r} is not one of {known}") from error
