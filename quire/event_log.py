"""An observer that writes each event into a file, as one line of JSON.

    QUIRE_EVENTS=DIRECTORY          each process writes files of its own there
    QUIRE_EVENTS_BYTES=N            what the directory may hold; 1 GiB by default
    DIRECTORY/bookie-ID-N.ndjson    the N-th life of a bookie
    DIRECTORY/client-PID-N.ndjson   a client of a process: `connect` makes one
    DIRECTORY/bookie-ID-N.2.ndjson  the second part, begun when the first had a sixteenth of all
    DIRECTORY/CUT                   parts were removed, or a process could not write on: the files
                                    cannot be compared any more

This is the one place that reads the variables; `connect` and `serve` ask here. The format is in
docs/formats.md ("Event files"), how to compare the files with the specification in docs/testing.md.

A line is written before the call returns, by one write and without a buffer: nothing that another
process could have seen is missing after `kill -9`. A write that fails ends the file; the observed
program goes on. An event costs some microseconds: this is for tests and for finding out, not for
production. A client of ledgers on Apache BookKeeper writes no events: its bookies tell none, and a
writer alone proves nothing.

A process that begins a file or a part removes the oldest parts of all processes until the directory
is within its bound; a file that is removed while its process writes it is lost. `CUT` is made
before that. So the directory exceeds its bound by a part for each process at most.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

from quire.entry import BookieId, Entry, EntryId, LedgerId
from quire.errors import ConfigurationError
from quire.observer import SILENT, Observer, RecoveryObserver, Source

VARIABLE: Final = "QUIRE_EVENTS"
VERSION: Final = 1
SUFFIX: Final = ".ndjson"

BYTES_VARIABLE: Final = "QUIRE_EVENTS_BYTES"
BYTES_MAX: Final = 1 << 30
"""Some eight million events."""

PARTS: Final = 16
"""A part has a sixteenth of the bound, so a sixteenth of what is kept goes at a time."""

CUT: Final = "CUT"
"""The file that says that events are missing."""

_log = logging.getLogger(__name__)


@contextmanager
def observing(kind: str, name: str) -> Iterator[Observer]:
    """Give a process the observer that the environment wants: an event log, or a silent one.

    Args:
        kind: `bookie` or `client`.
        name: the bookie's id, or the number of the process.

    Raises:
        ConfigurationError: the directory in the variable cannot be written, or its bound is not a
            positive number of bytes.
    """
    directory = os.environ.get(VARIABLE)
    if not directory:
        yield SILENT
        return
    log = EventLog(Path(directory), kind, name, _bytes_max(os.environ.get(BYTES_VARIABLE)))
    try:
        yield log
    finally:
        log.close()


def _bytes_max(text: str | None) -> int:
    """Return the bound that the environment gives."""
    if not text:
        return BYTES_MAX
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ConfigurationError(
            f"{BYTES_VARIABLE}={text} is not a positive number of bytes, such as {BYTES_MAX}"
        )
    return int(text)


class EventLog(Observer):
    """The events of one process, in a new file. The creator owns it and calls `close`."""

    def __init__(self, directory: Path, kind: str, name: str, bytes_max: int = BYTES_MAX) -> None:
        """Make the file. Raises `ConfigurationError` when the directory cannot be written.

        Args:
            directory: where the files of all processes are.
            kind: `bookie` or `client`.
            name: the bookie's id, or the number of the process.
            bytes_max: what the directory may hold (see the module).
        """
        self._number = count(1)
        self._recoveries = count(1)
        self._file = -1
        self._size = 0
        self._part = 1
        self._bytes_max = bytes_max
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self.path, life = self._create(directory, f"{kind}-{name}")
            self._bound()
        except OSError as error:
            raise ConfigurationError(
                f"{VARIABLE}={directory} cannot take events: {error.strerror}; name a directory "
                "that this process may write, or unset it"
            ) from error
        self.process: Final = self.path.name.removesuffix(SUFFIX)
        self._title: Final = {"format": VERSION, "process": f"{kind}-{name}", "life": life}
        self._write("begins", self._title)

    def _create(self, directory: Path, stem: str) -> tuple[Path, int]:
        """Create a file that did not exist. Lives of a bookie follow each other, so do numbers."""
        for life in count(1):
            path = directory / f"{stem}-{life}{SUFFIX}"
            try:
                self._open(path)
            except FileExistsError:
                continue
            return path, life
        raise AssertionError("numbers do not end")

    def _open(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._file, self._size = os.open(path, flags, 0o644), 0

    def _begin_part(self) -> None:
        """Go on in a new file. Raises OSError."""
        self.close()
        self._part += 1
        path = self.path.with_name(f"{self.process}.{self._part}{SUFFIX}")
        self._open(path)
        self.path = path
        self._bound()
        self._put("continues", {**self._title, "part": self._part})

    def _bound(self) -> None:
        """Remove the oldest files until the directory is within its bound. Raises OSError."""
        found = []
        for path in self.path.parent.glob("*" + SUFFIX):
            with suppress(FileNotFoundError):  # another process has removed it
                status = path.stat()
                found.append((status.st_mtime_ns, path, status.st_size))
        total = sum(size for _, _, size in found)
        for _, path, size in sorted(found):
            if total <= self._bytes_max:
                return
            if path != self.path:
                (self.path.parent / CUT).touch()
                path.unlink(missing_ok=True)
                total -= size

    def close(self) -> None:
        """Close the file. Harmless when called again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, kind: str, fields: dict[str, Any]) -> None:
        if self._file < 0:
            return
        try:
            self._put(kind, fields)
            if self._size >= max(1, self._bytes_max // PARTS):
                self._begin_part()
        except OSError as error:
            _log.warning("events are not written any more, %s ends here: %s", self.path, error)
            self.close()
            # The program goes on: its file would end as if it had been killed.
            with suppress(OSError):
                (self.path.parent / CUT).touch()

    def _put(self, kind: str, fields: dict[str, Any]) -> None:
        """Write a line. Raises OSError."""
        line = json.dumps({"n": next(self._number), "kind": kind, **fields}, separators=(",", ":"))
        data = line.encode() + b"\n"
        written = os.write(self._file, data)
        if written < len(data):
            raise OSError("the file takes no more")
        self._size += written

    def tell(self, kind: str, ledger: LedgerId, **fields: Any) -> None:
        """Write an event of a ledger."""
        self._write(kind, {"ledger": ledger, **fields})

    def held(self, ledger: LedgerId, entries: Sequence[EntryId], source: Source) -> None:
        self.tell("held", ledger, ranges=ranges(entries), source=source.value)

    def fenced(self, ledger: LedgerId) -> None:
        self.tell("fenced", ledger)

    def denied(self, ledger: LedgerId, first: EntryId, last: EntryId) -> None:
        self.tell("denied", ledger, first=first, last=last)

    def refused(self, ledger: LedgerId) -> None:
        self.tell("refused", ledger)

    def retired(self, ledger: LedgerId) -> None:
        self.tell("retired", ledger)

    def disowned(self, ledger: LedgerId) -> None:
        self.tell("disowned", ledger)

    def salvaged(self, ledger: LedgerId) -> None:
        self.tell("salvaged", ledger)

    def confirmed(self, ledger: LedgerId, lac: EntryId) -> None:
        self.tell("confirmed", ledger, lac=lac)

    def frozen(self, ledger: LedgerId, first: EntryId) -> None:
        self.tell("frozen", ledger, first=first)

    def thawed(self, ledger: LedgerId, first: EntryId, bookies: Sequence[BookieId]) -> None:
        self.tell("thawed", ledger, first=first, bookies=list(bookies))

    def recovering(self, ledger: LedgerId) -> RecoveryObserver:
        token = f"{self.process}:{next(self._recoveries)}"
        self.tell("recovering", ledger, token=token)
        return _Recovery(self, ledger, token)

    def recorded(
        self,
        ledger: LedgerId,
        version: int,
        state: str,
        replication: tuple[int, int, int],
        fragments: Sequence[tuple[EntryId, Sequence[BookieId]]],
        last: EntryId | None,
    ) -> None:
        named = [[first, list(bookies)] for first, bookies in fragments]
        self.tell(
            *("recorded", ledger),
            version=version,
            state=state,
            replication=list(replication),
            fragments=named,
            last=last,
        )

    def deleting(self, ledger: LedgerId) -> None:
        self.tell("deleting", ledger)

    def deleted(self, ledger: LedgerId) -> None:
        self.tell("deleted", ledger)


class _Recovery(RecoveryObserver):
    """One recovery. Each of its lines has its token."""

    def __init__(self, log: EventLog, ledger: LedgerId, token: str) -> None:
        self._log = log
        self._ledger = ledger
        self._token = token

    def started(self, lac: EntryId, everyone: Sequence[BookieId] = ()) -> None:
        self._tell("started", lac=lac, everyone=list(everyone))

    def shown(self, bookie: BookieId, entries: Sequence[Entry]) -> None:
        self._tell("shown", bookie=bookie, ranges=ranges(each.entry for each in entries))

    def counted(self, bookie: BookieId, first: EntryId, last: EntryId) -> None:
        self._tell("counted", bookie=bookie, first=first, last=last)

    def closing(self, last: EntryId) -> None:
        self._tell("closing", last=last)

    def _tell(self, kind: str, **fields: Any) -> None:
        self._log.tell(kind, self._ledger, token=self._token, **fields)


def ranges(entries: Iterable[EntryId]) -> list[tuple[EntryId, EntryId]]:
    """Return ascending entries as (first, last) of their consecutive stretches."""
    if isinstance(entries, range) and entries.step == 1:
        return [(entries[0], entries[-1])] if entries else []
    found: list[tuple[EntryId, EntryId]] = []
    for entry in entries:
        if found and found[-1][1] == entry - 1:
            found[-1] = (found[-1][0], entry)
        else:
            found.append((entry, entry))
    return found
