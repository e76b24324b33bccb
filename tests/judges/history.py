"""The history of a log as its clients recorded it: one operation a line (NDJSON), for the judges.

A history says what each client asked and was told, and when. It holds no opinion. Times are
nanoseconds of one clock that all clients of a run share: `CLOCK_MONOTONIC` of the machine in a
soak, virtual time in a simulated run. A client notes the call before it sends the request, and the
return after it has the answer, so that the interval contains the moment at which the operation
took effect.

    append   values that were appended as one batch; `offset` of the first when it was acknowledged
    read     consecutive values as one reader got them, from `offset` on
    end      a linearizable end: the offset that the next record gets
    trim     records before `offset` may be gone

`outcome` is `ok`, `failed` (the client was told that nothing was written), or `unknown` (it was
told nothing, or it died). A value names its append: no value is appended twice by intent.

Lines of one process with the same number are one operation; the last line counts. So a client
writes a line when it calls, and a second one when it has the answer: a killed client leaves the
first, which means unknown.

Not here: what the judges make of it (settle.py, anomalies.py, s2.py, porcupine/).
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, TypeAlias


class Kind(StrEnum):
    """What a client asked for."""

    APPEND = "append"
    READ = "read"
    END = "end"
    TRIM = "trim"


class Outcome(StrEnum):
    """What a client was told."""

    OK = "ok"
    UNKNOWN = "unknown"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of one client. `returned` is None where the client got no answer."""

    process: str
    number: int
    kind: Kind
    called: int
    returned: int | None = None
    outcome: Outcome = Outcome.UNKNOWN
    values: tuple[str, ...] = ()
    offset: int | None = None
    expected: int | None = None
    """The offset that a conditional append asked for."""
    place: tuple[int, ...] | None = None
    """The position that the client of an append was given: positions order the records of a log."""

    @property
    def after(self) -> int:
        """The offset after the last record of an operation whose offset is known."""
        assert self.offset is not None
        return self.offset + len(self.values)

    @property
    def is_ok(self) -> bool:
        """Whether the client was told that the operation succeeded."""
        return self.outcome is Outcome.OK


History: TypeAlias = Sequence[Operation]


def value_of(payload: bytes) -> str:
    """Return the name of a payload: its printable head and a checksum of the whole."""
    head = payload.partition(b":")[0].decode("ascii", "backslashreplace")
    return f"{head}~{zlib.crc32(payload):08x}"


def to_line(operation: Operation) -> str:
    """Return an operation as a line of JSON, without what is at its default."""
    defaults = ((), None)
    fields = {key: value for key, value in asdict(operation).items() if value not in defaults}
    return json.dumps(fields, separators=(",", ":"))


def from_line(line: str) -> Operation:
    """Read a line of a history. Raises `ValueError` for a line that is not an operation."""
    try:
        fields: dict[str, Any] = json.loads(line)
        fields["kind"] = Kind(fields["kind"])
        fields["outcome"] = Outcome(fields["outcome"])
        fields["values"] = tuple(fields.get("values", ()))
        if "place" in fields:
            fields["place"] = tuple(fields["place"])
        return Operation(**fields)
    except (TypeError, KeyError) as error:
        raise ValueError(f"not an operation of a history: {line[:200]!r} ({error})") from error


def load(paths: Iterable[Path]) -> list[Operation]:
    """Return the operations of some files, in order of their calls.

    The last line of a file may be cut short, as the kill of its process leaves it.
    Raises `ValueError` for any other line that is not an operation.
    """
    found: dict[tuple[str, int], Operation] = {}
    for path in paths:
        lines = path.read_text(encoding="utf-8").split("\n")
        for line in lines[:-1]:
            operation = from_line(line)
            found[operation.process, operation.number] = operation
    return sorted(found.values(), key=lambda each: (each.called, each.process, each.number))


def save(path: Path, history: Iterable[Operation]) -> None:
    """Write a whole history into one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(to_line(each) + "\n" for each in history)


class Kept(Protocol):
    """A record as the log kept it."""

    @property
    def offset(self) -> int: ...
    @property
    def payload(self) -> bytes: ...


def last_read(log: Sequence[Kept], called: int, returned: int) -> Iterator[Operation]:
    """Yield what a reader was given that read a whole log when its last leader had closed it: every
    record, and the end.
    """
    common: dict[str, Any] = {
        "process": "last read",
        "called": called,
        "returned": returned,
        "outcome": Outcome.OK,
    }
    for number, record in enumerate(log):
        values = (value_of(record.payload),)
        yield Operation(
            number=number, kind=Kind.READ, values=values, offset=record.offset, **common
        )
    end = log[-1].offset + 1 if log else 0
    yield Operation(number=len(log), kind=Kind.END, offset=end, **common)


class Journal:
    """The file of one client process. Each line is one `write`, so a kill costs at most a line."""

    def __init__(self, path: Path, process: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._process = process
        self._numbers: dict[str, int] = {}

    def number(self, role: str) -> tuple[str, int]:
        """Return the process and the number of the next operation of a role of this client."""
        number = self._numbers[role] = self._numbers.get(role, -1) + 1
        return f"{self._process}/{role}", number

    def write(self, *operations: Operation) -> None:
        """Add operations."""
        os.write(self._file, "".join(to_line(each) + "\n" for each in operations).encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
