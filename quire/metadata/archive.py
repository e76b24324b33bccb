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
import contextlib
import errno
import json
import os
import tempfile
from array import array
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

PARTIAL_PREFIX: Final = "quire-backup-"
PARTIAL_SUFFIX: Final = ".partial"
"""A file that is not whole yet is called `quire-backup-….partial`. Its mode is 0600: records hold
checks of passwords, so a backup is for its owner only."""

NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""What `link` says on a file system without hard links."""


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

    Every writer has a partial file of its own, so two backups to one name never mix. The second to
    finish is refused.

    Raises:
        ConfigurationError: there is a file of that name, or it cannot be written: its directory is
            missing, or the disk is full. Each method raises it, too.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._crc = 0
        self.records = 0
        if os.path.lexists(target):
            raise self._exists()
        with self._errors():
            descriptor, partial = tempfile.mkstemp(PARTIAL_SUFFIX, PARTIAL_PREFIX, target.parent)
        self._partial = Path(partial)
        self._file: BinaryIO = os.fdopen(descriptor, "wb")
        self._write(MAGIC)

    def add(self, record: Saved) -> None:
        """Append a record."""
        self.records += 1
        value = base64.b64encode(record.value).decode()
        self._write(_line({"path": record.path, "value": value, "crc32c": _sum(record)}))

    def finish(self, summary: Summary) -> None:
        """Write the last line, sync, and give the file its name."""
        self._write(_last_line(summary, self._crc))
        with self._errors():
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._give_name()
            directory = os.open(self._target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def _give_name(self) -> None:
        """Name the whole file. A file that came to the name meanwhile stays."""
        try:
            os.link(self._partial, self._target)
        except FileExistsError:
            raise self._exists() from None
        except OSError as error:  # a file system without hard links, such as FAT
            if error.errno not in NO_LINKS or os.path.lexists(self._target):
                raise
            os.replace(self._partial, self._target)
        else:
            self._partial.unlink()

    def _write(self, data: bytes) -> None:
        self._crc = google_crc32c.extend(self._crc, data)
        with self._errors():
            self._file.write(data)

    def _exists(self) -> ConfigurationError:
        return ConfigurationError(
            f"{self._target} exists: a backup is never replaced, name another"
        )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ConfigurationError(
                f"{self._target} cannot be written: {error.strerror}"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove an unfinished file."""
        with contextlib.suppress(OSError):  # closing writes the rest, which a full disk refuses
            self._file.close()
        if error is not None:
            with contextlib.suppress(OSError):
                self._partial.unlink()


class Archive:
    """A whole backup file, open for reading; a context manager.

    It stays the same file, whatever is given its name meanwhile. Of a file that is written over in
    place no other bytes are believed than those that were verified.

    Raises:
        ConfigurationError: the file cannot be read.
        CorruptStorageError: it is not a backup, it was cut short, or a byte of it is wrong.
    """

    def __init__(self, source: Path) -> None:
        self.source: Final = source
        self._sums = array("I")
        """By line: the checksum of the file up to its end. A million lines take 4 MB."""
        try:
            self._file: BinaryIO = source.open("rb")
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            self.summary: Final = self._verify()
        except BaseException:
            self._file.close()
            raise

    def records(self) -> Iterator[Saved]:
        """Yield the records. Raises `CorruptStorageError` where the file changed since it was
        verified.
        """
        read = 0
        for expected, (item, total) in zip(self._sums, self._items(), strict=False):
            if total != expected:
                break
            if isinstance(item, Saved):
                read += 1
                yield item
        if read != self.summary.records:
            raise CorruptStorageError(
                str(self.source),
                "it was changed while it was read: put the file back as it was, and repeat",
            )

    def _verify(self) -> Summary:
        summary: Summary | None = None
        records = 0
        for item, total in self._items():
            self._sums.append(total)
            if isinstance(item, Summary):
                summary = item
            else:
                records += 1
        if summary is None or summary.records != records:
            raise CorruptStorageError(
                str(self.source), "it was cut short: its last line is missing"
            )
        return summary

    def _items(self) -> Iterator[tuple[Saved | Summary, int]]:
        try:
            self._file.seek(0)
            yield from _items(self.source, self._file)
        except OSError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: OSError) -> ConfigurationError:
        return ConfigurationError(f"{self.source} cannot be read: {error.strerror or error}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def verify_archive(source: Path) -> Summary:
    """Read a whole backup file and return its summary. Raises as `Archive`."""
    with Archive(source) as archive:
        return archive.summary


def _items(source: Path, file: BinaryIO) -> Iterator[tuple[Saved | Summary, int]]:
    """Yield each record with the checksum of the file up to its end; the last line, too."""
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
        yield item, crc


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
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
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
