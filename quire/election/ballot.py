"""The decisions of an election, without I/O: which candidate leads, and what to watch.

Candidates stand in a queue, `c-` and ten digits each, in order of arrival.

* The candidate that took office leads as long as it stands.
* The next leader is the successor that it named, if that candidate still stands, or else the first
  in the queue.
* A new leader writes the next epoch into the election's record before it acts. The same record
  holds the successor's name, so that all candidates agree on it.

Each waiting candidate watches the place right before its own, and the record, which changes once a
term.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from quire.errors import CorruptRecordError
from quire.fields import NOTHING, Unknown
from quire.metastore.cluster import epoch_floor
from quire.metastore.record import RecordFormat

Place: TypeAlias = str
"""A candidate's name in the queue; it is never given to another."""

_PLACE: Final = re.compile(r"c-[0-9]{10}")
_CANDIDATE: Final = RecordFormat("candidate", frozenset({"candidate", "token"}))
_EPOCH: Final = RecordFormat(
    "epoch", frozenset({"epoch", "candidate", "place", "token", "successor"})
)


class Standing(StrEnum):
    """Where a candidate stands."""

    LEADS = "leads"
    WAITS = "waits"
    GONE = "gone"
    """The queue no longer has it: its session is over, or an operator removed it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A candidate's standing, and while it waits the place to watch."""

    standing: Standing
    ahead: Place | None = None


@dataclass(frozen=True, slots=True)
class Term:
    """The content of the epoch record: the last leader that took office."""

    epoch: int
    candidate: str
    place: Place
    token: str
    """Random and new for each candidacy: by it a leader knows its own term after a lost answer."""
    successor: Place | None = None
    """The candidate to follow, if the leader named one."""
    unknown: Unknown = NOTHING


def queue(names: Iterable[str]) -> list[Place]:
    """Return the places among some names, first come first."""
    return sorted(name for name in names if _PLACE.fullmatch(name))


def heir(places: list[Place], term: Term | None) -> Place | None:
    """Return the place that leads, or is to take office now."""
    for place in (term.place, term.successor) if term else ():
        if place in places:
            return place
    return places[0] if places else None


def judge(names: Iterable[str], mine: Place, term: Term | None = None) -> Verdict:
    """Return where the candidate at `mine` stands, given the last term."""
    places = queue(names)
    if mine not in places:
        return Verdict(Standing.GONE)
    first = heir(places, term)
    if first == mine:
        return Verdict(Standing.LEADS)
    index = places.index(mine)
    is_named = term is not None and term.successor == mine
    return Verdict(Standing.WAITS, first if is_named or not index else places[index - 1])


def in_office(names: Iterable[str], term: Term | None) -> Term | None:
    """Return the term of the candidate that leads, None when it did not take office yet."""
    return term if term and term.place in queue(names) else None


def next_term(
    last: Term | None, candidate: str, place: Place, token: str, incarnation: int = 0
) -> Term:
    """Return the next term; its epoch is greater than any before.

    `incarnation` is the one of the metadata store. A store that was put back from a backup has
    lost the terms since; each incarnation has epochs of its own, above those of the one before.
    """
    floor = epoch_floor(incarnation)
    if last is None:
        return Term(floor + 1, candidate, place, token)
    return Term(max(last.epoch, floor) + 1, candidate, place, token, unknown=last.unknown)


def encode_candidate(candidate: str, token: str) -> bytes:
    """Return the value of a place in the queue."""
    return _CANDIDATE.encode({"candidate": candidate, "token": token})


def decode_candidate(path: str, data: bytes) -> str:
    """Return the name of the candidate at a place. Raises `CorruptRecordError`."""
    body = _CANDIDATE.decode(path, data).body
    if not isinstance(body.get("candidate"), str):
        raise CorruptRecordError(path, f"not a candidate: {sorted(body)}")
    return str(body["candidate"])


def encode_term(term: Term) -> bytes:
    """Return the value of the epoch record."""
    body: dict[str, int | str] = {
        "epoch": term.epoch,
        "candidate": term.candidate,
        "place": term.place,
        "token": term.token,
    }
    if term.successor is not None:
        body["successor"] = term.successor
    return _EPOCH.encode(body, term.unknown)


def decode_term(path: str, data: bytes) -> Term:
    """Return what an epoch record says. Raises `CorruptRecordError`."""
    _, body, unknown = _EPOCH.decode(path, data)
    match body:
        case {
            "epoch": int(epoch),
            "candidate": str(name),
            "place": str(place),
            "token": str(token),
        }:
            return Term(epoch, name, place, token, body.get("successor"), unknown)
    raise CorruptRecordError(path, f"{sorted(body)} are not the fields of an epoch")
