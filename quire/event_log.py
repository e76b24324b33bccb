"""An observer that writes each event into a file, as one line of JSON.

    QUIRE_EVENTS=DIRECTORY         each process writes a file of its own there
    DIRECTORY/bookie-ID-N.ndjson   the N-th life of a bookie
    DIRECTORY/client-PID-N.ndjson  a client of a process: `connect` makes one

This is the one place that reads the variable; `connect` and `serve` ask here. The format is in
docs/formats.md ("Event files"), how to compare the files with the specification in docs/testing.md.

A line is written before the call returns, by one write and without a buffer: nothing that another
process could have seen is missing after `kill -9`. A write that fails ends the file; the observed
program goes on. An event costs some microseconds, and a file grows without bound: this is for
tests and for finding out, not for production.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

from quire.entry import BookieId, Entry, EntryId, LedgerId
from quire.errors import ConfigurationError
from quire.observer import SILENT, Observer, RecoveryObserver, Source

VARIABLE: Final = "QUIRE_EVENTS"
VERSION: Final = 1
SUFFIX: Final = ".ndjson"

_log = logging.getLogger(__name__)


@contextmanager
def observing(kind: str, name: str) -> Iterator[Observer]:
    """Give a process the observer that the environment wants: an event log, or a silent one.

    Args:
        kind: `bookie` or `client`.
        name: the bookie's id, or the number of the process.

    Raises:
        ConfigurationError: the directory in the variable cannot be written.
    """
    directory = os.environ.get(VARIABLE)
    if not directory:
        yield SILENT
        return
    log = EventLog(Path(directory), kind, name)
    try:
        yield log
    finally:
        log.close()


class EventLog(Observer):
    """The events of one process, in a new file. The creator owns it and calls `close`."""

    def __init__(self, directory: Path, kind: str, name: str) -> None:
        """Make the file. Raises `ConfigurationError` when the directory cannot be written."""
        self._number = count(1)
        self._recoveries = count(1)
        self._file = -1
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self.path, life = self._create(directory, f"{kind}-{name}")
        except OSError as error:
            raise ConfigurationError(
                f"{VARIABLE}={directory} cannot take events: {error.strerror}; name a directory "
                "that this process may write, or unset it"
            ) from error
        self.process: Final = self.path.name.removesuffix(SUFFIX)
        self._write("begins", {"format": VERSION, "process": f"{kind}-{name}", "life": life})

    def _create(self, directory: Path, stem: str) -> tuple[Path, int]:
        """Create a file that did not exist. Lives of a bookie follow each other, so do numbers."""
        for life in count(1):
            path = directory / f"{stem}-{life}{SUFFIX}"
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
                self._file = os.open(path, flags, 0o644)
            except FileExistsError:
                continue
            return path, life
        raise AssertionError("numbers do not end")

    def close(self) -> None:
        """Close the file. Harmless when called again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, kind: str, fields: dict[str, Any]) -> None:
        if self._file < 0:
            return
        line = json.dumps({"n": next(self._number), "kind": kind, **fields}, separators=(",", ":"))
        data = line.encode() + b"\n"
        try:
            written = os.write(self._file, data)
            if written < len(data):
                raise OSError("the file takes no more")
        except OSError as error:
            _log.warning("events are not written any more, %s ends here: %s", self.path, error)
            self.close()

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
