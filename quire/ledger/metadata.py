"""Ledger metadata: the record of the bookies that hold the entries, and of the ledger's state.

A ledger's entries are divided into fragments, each with one ensemble. Its life is a one-way street:

    OPEN ──→ IN_RECOVERY ──→ CLOSED        (a recoverer took over, then decided the end)
      └────────────────────────↑           (the writer closed it)

Invariants, checked whenever a value is made:

  M1  CLOSED is final: it has a last entry and a length, and they never change.
  M2  The first fragment starts at entry 0 and first entries strictly ascend.
  M3  Every ensemble has E bookies, none twice.
  M4  The end is not below the last fragment: last entry ≥ its first entry − 1.
  M5  With durability over domains, every fragment has the labels of its bookies.

Transitions are methods that return the next value and refuse illegal ones. They decide nothing
about concurrency: every change is a compare-and-set by the driver that makes it. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from quire.entry import (
    NO_ENTRY,
    BookieId,
    DigestKind,
    EntryId,
    LedgerId,
    is_of_guarded_reads,
)
from quire.errors import (
    ConfigurationError,
    CorruptRecordError,
    InvalidRequestError,
    LedgerClosedError,
)
from quire.fields import NOTHING, Unknown, joined, split, split_row
from quire.labels import NOWHERE, Labels
from quire.ledger.domains import ANYWHERE, Candidate, Placement
from quire.ledger.quorum import Replication
from quire.ledger.stretch import KeyStretch
from quire.metastore.record import RecordFormat

FORMAT: Final = RecordFormat(
    "ledger",
    frozenset(
        {
            "ledger",
            "ensemble",
            "write_quorum",
            "ack_quorum",
            "digest",
            "key_check",
            "fragments",
            "state",
            "last_entry",
            "length",
            "full_quorum",
            "custom",
            "created_ms",
            "token",
            "incarnation",
            "placement",
            "stretch",
        }
    ),
)


class LedgerState(StrEnum):
    """Where a ledger is in its life."""

    OPEN = "open"
    IN_RECOVERY = "in-recovery"
    CLOSED = "closed"


TRANSITIONS: Final[dict[LedgerState, frozenset[LedgerState]]] = {
    LedgerState.OPEN: frozenset({LedgerState.IN_RECOVERY, LedgerState.CLOSED}),
    LedgerState.IN_RECOVERY: frozenset({LedgerState.CLOSED}),
    LedgerState.CLOSED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Fragment:
    """The entries from `first` to the next fragment or the end; their ensemble by position."""

    first: EntryId
    bookies: tuple[BookieId, ...]
    labels: tuple[Labels, ...] = ()
    """Where the bookies were when the fragment began, by position, if acks count domains."""
    unknown: Unknown = field(default=NOTHING, compare=False)
    """Of a later program. It does not tell one fragment from another."""

    @classmethod
    def placed(
        cls, first: EntryId, ensemble: Iterable[Candidate], placement: Placement
    ) -> Fragment:
        """Return a fragment on these bookies, with their labels if the policy needs them."""
        seats = tuple(ensemble)
        labels = tuple(each.labels for each in seats) if placement.durable else ()
        return cls(first, tuple(each.bookie for each in seats), labels)

    def row(self) -> list[Any]:
        """The fragment as the record holds it."""
        known = {"labels": [str(each) for each in self.labels]} if self.labels else {}
        named = joined(known, self.unknown)
        return [self.first, list(self.bookies), *([named] if named else [])]


@dataclass(frozen=True, slots=True)
class Replica:
    """One position of the fragment that begins at `first` went from one bookie to another."""

    first: EntryId
    position: int
    old: BookieId
    new: BookieId
    labels: Labels = NOWHERE
    """Where the new bookie is."""


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """One ledger's record. `last_entry` and `length` (payload bytes) are known once it is CLOSED.

    `full_quorum` promises that then every entry was on all Qw bookies of its write set, not on Qa.
    `incarnation` is the store's incarnation when the ledger was created, 0 in records of before
    incarnations: in a later incarnation the record may lack ensembles (docs/protocol.md, I2).
    `token` is drawn by the creator, so that it recognises its own creation after a lost answer.
    `key_check` is empty where the record of another system does not tell keys apart: bookies do.
    `placement` is the policy that every ensemble of the ledger obeys.

    Raises `InvalidRequestError` when the parts contradict each other.
    """

    ledger: LedgerId
    replication: Replication
    digest: DigestKind
    key_check: str
    fragments: tuple[Fragment, ...]
    state: LedgerState = LedgerState.OPEN
    last_entry: EntryId | None = None
    length: int | None = None
    custom_metadata: Mapping[str, str] = field(default_factory=dict)
    created_ms: int = 0
    token: str = ""
    full_quorum: bool = False
    incarnation: int = 0
    placement: Placement = ANYWHERE
    stretch: KeyStretch | None = None
    """How the password became the secret that keys are made of; None: it is the secret."""
    unknown: Unknown = NOTHING

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise InvalidRequestError(f"metadata of ledger {self.ledger}: {problem}")

    def _problem(self) -> str | None:
        if self.ledger < 0:
            return "id is negative"
        if self.stretch is not None and not self.key_check:
            return "a stretched password, and nothing to check it with"
        strange = problem_of_custom(self.custom_metadata)
        if strange:
            return strange
        firsts = [fragment.first for fragment in self.fragments]
        if not firsts or firsts[0] != 0 or firsts != sorted(set(firsts)):
            return f"fragments start at {firsts}, which must be 0 and then ascend"
        for fragment in self.fragments:
            if len(fragment.bookies) != self.replication.ensemble:
                return (
                    f"fragment {fragment.first} does not have {self.replication.ensemble} bookies"
                )
            if len(set(fragment.bookies)) != len(fragment.bookies):
                return f"fragment {fragment.first} names a bookie twice"
            if len(fragment.labels) != (self.replication.ensemble if self.placement.durable else 0):
                return f"fragment {fragment.first} has labels of {len(fragment.labels)} bookies"
        return self._problem_of_end(firsts[-1])

    def _problem_of_end(self, last_first: EntryId) -> str | None:
        if self.state is not LedgerState.CLOSED:
            ended = self.last_entry is not None or self.length is not None
            return f"{self.state} but with an end" if ended else None
        if self.last_entry is None or self.length is None:
            return "closed without an end"
        if self.last_entry < max(last_first - 1, NO_ENTRY) or self.length < 0:
            return f"closed at {self.last_entry} (length {self.length}) below {last_first}"
        return None

    @property
    def read_needs_password(self) -> bool:
        """Whether bookies ask for the ledger's key before each read."""
        return is_of_guarded_reads(self.key_check)

    @property
    def is_closed(self) -> bool:
        """Whether the ledger's end is fixed: it has no writer."""
        return self.state is LedgerState.CLOSED

    @property
    def last_fragment(self) -> Fragment:
        """The only fragment that grows."""
        return self.fragments[-1]

    def fragment_of(self, entry: EntryId) -> Fragment:
        """Return the fragment that holds an entry, or would once it is written.

        Raises `InvalidRequestError` when the id is negative.
        """
        for fragment in reversed(self.fragments):
            if fragment.first <= entry:
                return fragment
        raise InvalidRequestError(f"ledger {self.ledger} has no entry {entry}: ids start at 0")

    def write_set(self, entry: EntryId) -> tuple[BookieId, ...]:
        """Return the bookies that store an entry, in write-set order."""
        bookies = self.fragment_of(entry).bookies
        return tuple(bookies[position] for position in self.replication.write_set(entry))

    def with_state(self, state: LedgerState) -> LedgerMetadata:
        """Return the value in another state. To CLOSED goes `closed`, which knows the end.

        Raises `LedgerClosedError` when the ledger is closed already, `InvalidRequestError` for
        another step the table does not have.
        """
        self._check_step(state)
        return replace(self, state=state)

    def closed(self, last_entry: EntryId, length: int) -> LedgerMetadata:
        """Return the value closed at an end.

        Raises as `with_state`, and `InvalidRequestError` when the end is impossible.
        """
        self._check_step(LedgerState.CLOSED)
        return replace(self, state=LedgerState.CLOSED, last_entry=last_entry, length=length)

    def with_fragment(self, fragment: Fragment) -> LedgerMetadata:
        """Return the value that places entries from `fragment.first` on on another ensemble.

        Replaces the last fragment when it starts there, else appends. Entries confirmed
        before keep their fragment. A recoverer uses it in memory until its closing change.

        Raises `LedgerClosedError` when closed, `InvalidRequestError` when it would start below the
        last fragment.
        """
        self._check_open_ended()
        last = self.last_fragment
        if fragment.first < last.first:
            raise InvalidRequestError(
                f"ledger {self.ledger}: fragment {fragment.first} would start below {last.first}"
            )
        if fragment.first > last.first:
            return replace(self, fragments=(*self.fragments, fragment))
        fragment = replace(fragment, unknown=last.unknown)
        return replace(self, fragments=(*self.fragments[:-1], fragment))

    def with_replica(
        self, first: EntryId, position: int, bookie: BookieId, labels: Labels = NOWHERE
    ) -> LedgerMetadata:
        """Return the value that gives one position of a finished fragment to another bookie.

        This is re-replication's edit: legal for every fragment but the last, and for the last too
        once the ledger is closed. Raises `InvalidRequestError` otherwise.
        """
        growing = None if self.is_closed else self.last_fragment.first
        for index, fragment in enumerate(self.fragments):
            if fragment.first == first and first != growing:
                bookies = list(fragment.bookies)
                bookies[position] = bookie
                places = list(fragment.labels)
                if places:
                    places[position] = labels
                changed = replace(fragment, bookies=tuple(bookies), labels=tuple(places))
                return replace(
                    self,
                    fragments=(*self.fragments[:index], changed, *self.fragments[index + 1 :]),
                )
        raise InvalidRequestError(f"ledger {self.ledger} has no finished fragment {first}")

    def with_replicas(self, replicas: Iterable[Replica]) -> LedgerMetadata:
        """Return the value with each position given away that its old bookie still holds.

        Where another edit was faster, that one stays. Raises as `with_replica`.
        """
        value = self
        for replica in replicas:
            if value.fragment_of(replica.first).bookies[replica.position] == replica.old:
                value = value.with_replica(
                    replica.first, replica.position, replica.new, replica.labels
                )
        return value

    def _check_open_ended(self) -> None:
        if self.is_closed:
            raise LedgerClosedError(self.ledger, self.last_entry)

    def _check_step(self, state: LedgerState) -> None:
        self._check_open_ended()
        if state not in TRANSITIONS[self.state]:
            raise InvalidRequestError(
                f"ledger {self.ledger} cannot go from {self.state} to {state}"
            )

    def encode(self) -> bytes:
        """Return the record's bytes; equal values have equal bytes."""
        body = {
            "ledger": self.ledger,
            "ensemble": self.replication.ensemble,
            "write_quorum": self.replication.write_quorum,
            "ack_quorum": self.replication.ack_quorum,
            "digest": str(self.digest),
            "key_check": self.key_check,
            "fragments": [fragment.row() for fragment in self.fragments],
            "state": str(self.state),
            "last_entry": self.last_entry,
            "length": self.length,
            "custom": dict(self.custom_metadata),
            "created_ms": self.created_ms,
            "token": self.token,
            "full_quorum": self.full_quorum,
        }
        if self.incarnation:
            body["incarnation"] = self.incarnation
        if self.placement != ANYWHERE:
            body["placement"] = str(self.placement)
        if self.stretch is not None:
            body["stretch"] = str(self.stretch)
        return FORMAT.encode(body, self.unknown)

    @classmethod
    def decode(cls, path: str, data: bytes) -> LedgerMetadata:
        """Return the value of a record read at `path`.

        Raises `CorruptRecordError`, naming the path, for anything `encode` would not have written.
        """
        _, body, unknown = FORMAT.decode(path, data)
        try:
            return _from_body(body, unknown)
        except (KeyError, TypeError, ValueError, LedgerClosedError, ConfigurationError) as error:
            raise CorruptRecordError(path, f"{type(error).__name__}: {error}") from error


def problem_of_custom(custom: object) -> str | None:
    """Return why a value cannot be the custom metadata of a ledger, None if it can."""
    if not isinstance(custom, Mapping):
        return f"custom metadata maps text to text, {custom!r} does not"
    strange = [each for pair in custom.items() for each in pair if type(each) is not str]
    return f"custom metadata is text only, {strange[0]!r} is none" if strange else None


def _from_body(body: Mapping[str, Any], unknown: Unknown) -> LedgerMetadata:
    return LedgerMetadata(
        ledger=_number(body["ledger"]),
        replication=Replication(
            _number(body["ensemble"]),
            _number(body["write_quorum"]),
            _number(body["ack_quorum"]),
        ),
        digest=DigestKind(body["digest"]),
        key_check=_text(body["key_check"]),
        fragments=tuple(map(_fragment, body["fragments"])),
        state=LedgerState(body["state"]),
        last_entry=None if body["last_entry"] is None else _number(body["last_entry"]),
        length=None if body["length"] is None else _number(body["length"]),
        custom_metadata={
            _text(key): _text(value) for key, value in _mapping(body["custom"]).items()
        },
        created_ms=_number(body["created_ms"]),
        token=_text(body["token"]),
        full_quorum=_flag(body["full_quorum"]),
        incarnation=_number(body.get("incarnation", 0)),
        placement=Placement.parse(_text(body.get("placement", ""))),
        stretch=KeyStretch.parse(_text(body["stretch"])) if "stretch" in body else None,
        unknown=unknown,
    )


def _fragment(row: Any) -> Fragment:
    (first, bookies), named = split_row(row)
    known, unknown = split(json.loads(named or "{}"), {"labels"})
    labels = tuple(Labels.parse(_text(each)) for each in known.get("labels", ()))
    return Fragment(_number(first), tuple(map(_text, bookies)), labels, unknown)


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not an integer")
    return value


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _mapping(value: object) -> Mapping[object, object]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is not a mapping")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value
