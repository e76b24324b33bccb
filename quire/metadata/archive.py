"""A backup file: one line of JSON a record, each under a checksum, and a last line over all.

    quire-backup 1
    {"crc32c":…,"path":"/quire/…","value":"base64"}
    …
    {"cluster":…,"crc32c":…,"incarnation":…,"made_ms":…,"next":…,"records":…}

A record's checksum covers its path and its value; the last line's checksum covers the rest of the
file. A file without its last line was cut short. Reading verifies the whole file before it returns
anything. Not here: the selection of records and their order (backup.py).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, NamedTuple, Self

import google_crc32c

from quire.entry import LedgerId
from quire.errors import ConfigurationError, CorruptStorageError

MAGIC: Final = b"quire-backup 1\n"
LINE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Longer than the longest record, a value of 1,000,000 bytes in base64."""

MODE: Final = 0o600
"""Records hold checks of passwords: a backup is for its owner only."""


class Saved(NamedTuple):
    """One record of a store."""

    path: str
    value: bytes


class Summary(NamedTuple):
    """The last line: identifies the store, and counts the records."""

    cluster: str
    incarnation: int
    following: LedgerId
    """The first ledger id that was not given out, read after everything else."""
    made_ms: int
    records: int


class ArchiveWriter:
    """Writes a backup file; a context manager. The file appears under its name when it is whole.

    Raises:
        ConfigurationError: there is a file of that name, or its directory cannot be written.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._partial = target.with_name(target.name + ".partial")
        self._crc = 0
        self.records = 0
        if target.exists():
            raise ConfigurationError(f"{target} exists: a backup is never replaced, name another")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        try:
            self._file: BinaryIO = os.fdopen(os.open(self._partial, flags, MODE), "wb")
        except OSError as error:
            raise ConfigurationError(f"{target} cannot be written: {error.strerror}") from error
        self._write(MAGIC)

    def add(self, record: Saved) -> None:
        """Append a record. Raises OSError."""
        self.records += 1
        value = base64.b64encode(record.value).decode()
        self._write(_line({"path": record.path, "value": value, "crc32c": _sum(record)}))

    def finish(self, summary: Summary) -> None:
        """Write the last line, sync, and give the file its name. Raises OSError."""
        self._write(_last_line(summary, self._crc))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._partial, self._target)
        directory = os.open(self._target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _write(self, data: bytes) -> None:
        self._crc = google_crc32c.extend(self._crc, data)
        self._file.write(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove an unfinished file."""
        if not self._file.closed:
            self._file.close()
        if error is not None:
            with contextlib.suppress(OSError):
                self._partial.unlink()


def verify_archive(source: Path) -> Summary:
    """Read a whole backup file and return its summary.

    Raises:
        ConfigurationError: the file cannot be read.
        CorruptStorageError: it is not a backup, it was cut short, or a byte of it is wrong.
    """
    summary: Summary | None = None
    records = 0
    for item in _items(source):
        if isinstance(item, Summary):
            summary = item
        else:
            records += 1
    if summary is None or summary.records != records:
        raise CorruptStorageError(str(source), "it was cut short: its last line is missing")
    return summary


def read_archive(source: Path) -> Iterator[Saved]:
    """Yield the records of a backup file that was verified. Raises as `verify_archive`."""
    for item in _items(source):
        if isinstance(item, Saved):
            yield item


def _items(source: Path) -> Iterator[Saved | Summary]:
    try:
        file = source.open("rb")
    except OSError as error:
        raise ConfigurationError(f"{source} cannot be read: {error.strerror}") from error
    with file:
        if file.readline(len(MAGIC)) != MAGIC:
            raise CorruptStorageError(str(source), "it is not a backup of a metadata store")
        crc: int = google_crc32c.value(MAGIC)
        number, is_over = 1, False
        while line := file.readline(LINE_BYTES_MAX):
            number += 1
            if is_over:
                raise CorruptStorageError(str(source), "data follows its last line")
            item = _parsed(source, number, line)
            is_over = isinstance(item, Summary)
            if isinstance(item, Summary) and line != _last_line(item, crc):
                raise CorruptStorageError(str(source), "its checksum does not match")
            crc = google_crc32c.extend(crc, line)
            yield item


def _parsed(source: Path, number: int, line: bytes) -> Saved | Summary:
    where = f"line {number}"
    try:
        body: dict[str, Any] = json.loads(line)
        if "path" in body:
            record = Saved(body["path"], base64.b64decode(body["value"], validate=True))
            if body["crc32c"] != _sum(record):
                raise CorruptStorageError(str(source), f"{where}: its checksum does not match")
            return record
        summary = Summary(
            *(body["cluster"], body["incarnation"], body["next"]), body["made_ms"], body["records"]
        )
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise CorruptStorageError(str(source), f"{where} is not a record: {error}") from error
    if not all(type(each) is int for each in summary[1:]):
        raise CorruptStorageError(str(source), f"{where} is not the end of a backup")
    return summary


def _line(body: dict[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def _last_line(summary: Summary, crc: int) -> bytes:
    """Return the last line of a file, given the checksum of all bytes before it."""
    fields = summary._asdict()
    fields["next"] = fields.pop("following")
    return _line({**fields, "crc32c": google_crc32c.extend(crc, _line(fields))})


def _sum(record: Saved) -> int:
    crc: int = google_crc32c.extend(google_crc32c.value(record.path.encode()), record.value)
    return crc
