"""Event files of real processes against the specification: `python -m tests.spec.files DIRECTORY`.

Each process wrote one file, or parts of it (quire/event_log.py). All of them must have ended: a
file that still grows lacks what others build on. A directory that was cut to its bound lacks the
beginning, and is not compared: the specification explains a run from its first step. Lives of one
bookie follow each other, and make one stream. The
records of a ledger make a stream of their own, by version: what all processes tell of one version
must be the same.

A file may end anywhere, since processes are killed. In front of its end no line may be missing.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from quire.event_log import BYTES_VARIABLE, CUT, SUFFIX, VARIABLE, VERSION
from quire.ledger.metadata import LedgerState
from quire.observer import Source
from tests.spec.events import NOTHING, RECORDS, SOURCES, Event, Fragments, Kind, Shape
from tests.spec.merge import Line, merge

RECORD: Final = "the record"
BOOKIE: Final = "bookie-"
SHOWN_MAX: Final = 20
BARE: Final = {
    "fenced": Kind.FENCED,
    "refused": Kind.REFUSED,
    "retired": Kind.RETIRED,
    "disowned": Kind.DISOWNED,
    "salvaged": Kind.SALVAGED,
    "deleting": Kind.DELETING,
}


class DamagedError(Exception):
    """A file is not what a process writes: something is missing in it, or was changed."""


class CutError(DamagedError):
    """Events were removed or not written, and nothing can be said of the others."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            f"{directory} was cut: the oldest events were removed, or a process could not write "
            f"on, and nothing can be said of the others; set {BYTES_VARIABLE} higher, free space "
            "on the disk, or record a shorter run"
        )


@dataclass
class Told:
    """What all processes told of one ledger."""

    streams: dict[str, list[Line]] = field(default_factory=lambda: defaultdict(list))
    records: dict[int, Event] = field(default_factory=dict)
    shape: Shape | None = None
    wrong: list[str] = field(default_factory=list)

    def record(self, place: str, fields: dict[str, Any]) -> None:
        """A process tells what the record is at a version."""
        self.shape = Shape(*fields["replication"])
        last = NOTHING if fields["last"] is None else fields["last"]
        version, kind = fields["version"], RECORDS[LedgerState(fields["state"])]
        event = Event(kind, "", 0, last, _fragments(fields["fragments"]), version=version)
        known = self.records.setdefault(version, event)
        if known != event:
            self.wrong.append(f"{place}: M1: {known} and {event} are both version {version}")

    def judge(self) -> list[str]:
        """Return what the specification does not explain."""
        if self.shape is None:
            return [*self.wrong, "no process knows its record"]
        streams = dict(self.streams)
        newest = max(self.records)
        streams[RECORD] = [
            Line(f"version {version}", self.records[version]) for version in sorted(self.records)
        ]
        for process, lines in self.streams.items():
            streams[process] = [
                line._replace(event=line.event._replace(version=newest))
                if line.event.kind is Kind.DELETED
                else line
                for line in lines
            ]
        return [*self.wrong, *(str(each) for each in merge(self.shape, streams))]


@dataclass
class Verdict:
    """What came of comparing a directory with the specification."""

    files: int = 0
    events: int = 0
    ledgers: int = 0
    recoveries: int = 0
    refusals: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.events:,} events of {self.files} processes, {self.ledgers} ledgers, "
            f"{self.recoveries} recoveries: {len(self.refusals)} refused by the specification"
        )


@contextmanager
def observed(directory: Path) -> Iterator[None]:
    """Have this process, and those that it starts in here, write their events to a directory."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(directory)
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before


def validate(directory: Path) -> Verdict:
    """Compare the event files of a directory with the specification.

    Raises `DamagedError` for a file that is not as a process writes it, and `CutError` when events
    were removed to bound the directory.
    """
    if (directory / CUT).exists():
        raise CutError(directory)
    verdict = Verdict()
    ledgers: dict[int, Told] = defaultdict(Told)
    for path, lines in _files(directory):
        verdict.files += 1
        name = lines[0][1]["process"]
        bookie = name.removeprefix(BOOKIE) if name.startswith(BOOKIE) else ""
        process = name if bookie else path.stem
        for place, fields in lines[1:]:
            verdict.events += 1
            verdict.recoveries += fields["kind"] == "recovering"
            told = ledgers[fields["ledger"]]
            if fields["kind"] == "recorded":
                told.record(place, fields)
            stream = told.streams[process]
            stream += [Line(place, event) for event in _events(bookie, place, fields)]
    verdict.ledgers = len(ledgers)
    for ledger, told in sorted(ledgers.items()):
        verdict.refusals += [f"ledger {ledger}: {reason}" for reason in told.judge()]
    return verdict


def _files(directory: Path) -> Iterator[tuple[Path, list[tuple[str, dict[str, Any]]]]]:
    """Yield the files, each with its lines, parts joined, lives of a process in their order."""
    parts: dict[tuple[str, int], list[tuple[int, Path]]] = defaultdict(list)
    for path in directory.glob("*" + SUFFIX):
        if begun := _beginning(path):
            life = (begun["process"], begun["life"])
            parts[life].append((begun.get("part", 1), path))
    for _, found in sorted(parts.items()):
        lines: list[tuple[str, dict[str, Any]]] = []
        for _, path in sorted(found):
            lines += _lines(path, len(lines))
        yield min(found)[1], [each for each in lines if each[1]["kind"] != "continues"]


def _beginning(path: Path) -> dict[str, Any] | None:
    """Return the first line of a file, None when a killed process wrote less."""
    head, ended, _ = path.read_bytes().partition(b"\n")
    if not ended:
        return None
    fields = _parsed(f"{path.name}:1", head)
    is_first = fields.get("kind") == "begins"
    if fields.get("format") != VERSION or not (is_first or fields.get("kind") == "continues"):
        raise DamagedError(f"{path.name} does not begin as a file of format {VERSION}")
    return fields


def _parsed(place: str, raw: bytes) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = json.loads(raw)
    except ValueError as error:
        raise DamagedError(f"{place} is not JSON: {error}") from None
    return fields


def _lines(path: Path, before: int) -> list[tuple[str, dict[str, Any]]]:
    """Return the lines of a part; what a killed process wrote half of is left out.

    `before`: lines in the parts before it.
    """
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    found = []
    for number, raw in enumerate(whole.splitlines(), 1):
        place = f"{path.name}:{number}"
        fields = _parsed(place, raw)
        if fields.get("n") != before + number:
            raise DamagedError(f"{place} has number {fields.get('n')}: lines are missing")
        found.append((place, fields))
    return found


def _fragments(named: list[Any]) -> Fragments:
    return tuple((first, tuple(bookies)) for first, bookies in named)


def _events(bookie: str, place: str, fields: dict[str, Any]) -> Iterator[Event]:
    """Yield the events that a line tells of."""
    kind, token = fields["kind"], fields.get("token", "")
    if kind in BARE:
        yield Event(BARE[kind], bookie)
    elif kind == "held":
        for first, last in fields["ranges"]:
            yield Event(SOURCES[Source(fields["source"])], bookie, first, last)
    elif kind == "denied":
        yield Event(Kind.DENIED, bookie, fields["first"], fields["last"])
    elif kind == "deleted":
        yield Event(Kind.DELETED)
    elif kind == "recorded":
        yield Event(Kind.RECORDED, version=fields["version"])
    elif kind == "confirmed":
        yield Event(Kind.CONFIRMED, "", fields["lac"], fields["lac"])
    elif kind == "frozen":
        yield Event(Kind.FROZEN, "", fields["first"])
    elif kind == "thawed":
        named = _fragments([[fields["first"], fields["bookies"]]])
        yield Event(Kind.THAWED, fragments=named)
    elif token:
        yield from _of_a_recovery(place, fields, token)
    else:
        raise DamagedError(f"{place} tells of {kind!r}, which is not known")


def _of_a_recovery(place: str, fields: dict[str, Any], token: str) -> Iterator[Event]:
    kind, bookie = fields["kind"], fields.get("bookie", "")
    if kind == "recovering":
        yield Event(Kind.BEGAN, token=token)
    elif kind == "started":
        asked = _fragments([[0, fields["everyone"]]]) if fields["everyone"] else ()
        yield Event(Kind.STARTED, "", 0, fields["lac"], asked, token)
    elif kind == "shown":
        for first, last in fields["ranges"]:
            yield Event(Kind.SHOWN, bookie, first, last, token=token)
    elif kind == "counted":
        yield Event(Kind.COUNTED, bookie, fields["first"], fields["last"], token=token)
    elif kind == "closing":
        yield Event(Kind.CLOSING, "", 0, fields["last"], token=token)
    else:
        raise DamagedError(f"{place} tells of {kind!r}, which is not known")


def main(arguments: Sequence[str]) -> int:
    """Print the verdict on the directory that the command names; return the exit code: 1 for a
    refusal, 2 for a directory that cannot be judged.
    """
    try:
        verdict = validate(Path(arguments[0]))
    except DamagedError as error:
        print(f"not judged: {error}")
        return 2
    for refusal in verdict.refusals[:SHOWN_MAX]:
        print(f"✗ {refusal}")
    print(verdict)
    return int(bool(verdict.refusals))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
