"""A tier as a place: its files, whether it takes new ones, and how files leave it.

A record of the metadata store can name any place, so a record is never enough. A path is believed
when its last directory is the log's id and its name is the name of an attempt (cold_files.py): this
program makes no other file. The check looks at the path that the file system is given, after the
URI was understood, so that no spelling of a URI leads elsewhere. Files are removed one by one, and
a directory only when it is empty.

Blocking: to be called in a thread. Source: docs/decisions/0024-tiers.md.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from quire.errors import ColdTierError, ConfigurationError, CorruptStorageError
from quire.log.cold.checksums import CheckedFile
from quire.log.manifest.cold_files import ATTEMPTS, ColdFile, attempt_of, is_ours, is_probe, join

_PROBE: Final = b"quire wrote this to see whether it can, and removes it\n"


def locate(uri: str) -> tuple[Any, str]:
    """Return the file system and the path of a URI. Raises `ConfigurationError`."""
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise ConfigurationError(f"cold segments cannot be in {uri!r}: {error}") from error
    return found


@contextmanager
def tier_errors(uri: str) -> Iterator[None]:
    """Errors of a file system about several files are worth another try."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise ColdTierError(uri, str(error)) from error


def list_names(tier: str, log_id: str) -> list[str]:
    """Return the names of a log's files in a directory; none when the directory does not exist.

    What else lies there is not the log's, and is passed over. Raises `ColdTierError`,
    `ConfigurationError`.
    """
    system, path = locate(tier)
    with tier_errors(tier):
        found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    files = [each for each in found if each.type == fs.FileType.File]
    return sorted(each.base_name for each in files if is_ours(each.path, log_id))


def list_files(tier: str, log_id: str) -> tuple[set[str], set[str]]:
    """Return the names of a log's files in a tier, present and recent attempts included.

    Attempts are listed first: a file that is moved meanwhile is in both. Raises as `list_names`.
    """
    attempts = list_names(join(tier, ATTEMPTS), log_id)
    return set(list_names(tier, log_id)), {name for name in attempts if not is_probe(name)}


def settle(cold: ColdFile, log_id: str) -> None:
    """Move a file that a manifest names out of the directory of attempts. May be repeated.

    An object store copies and deletes, so that the file may be in both places for a moment, or
    after a crash; readers look into both. Harmless when the file is in its place, or in neither.
    Raises `ColdTierError`, `CorruptStorageError`, `ConfigurationError`.
    """
    system, path = _ours(cold.uri, log_id)
    _, attempt = _ours(cold.attempt_uri, log_id)
    with tier_errors(cold.uri):
        there, waiting = system.get_file_info([path, attempt])
        if waiting.type != fs.FileType.File:
            return
        with suppress(FileNotFoundError):  # another process was faster
            if there.type == fs.FileType.File and there.size == cold.size:
                system.delete_file(attempt)
            else:
                system.move(attempt, path)
        if isinstance(system, fs.LocalFileSystem):
            sync_one(os.path.dirname(path))
            sync_one(os.path.dirname(attempt))


def is_there(cold: ColdFile, log_id: str) -> bool:
    """Whether a file that a manifest names is in its place, as large as it was, and ends as it did.

    A bucket that vanished looks like an empty one. Another file of the same size, or a file with
    zeros at its end after a crash, has not the footer that was written. Raises `ColdTierError`,
    `CorruptStorageError`, `ConfigurationError`.
    """
    system, path = _ours(cold.uri, log_id)
    with tier_errors(cold.uri):
        found = system.get_file_info(path)
        if found.type != fs.FileType.File or found.size != cold.size:
            return False
        with system.open_input_file(path) as file:
            return _has_footer(cold, file)


def _has_footer(cold: ColdFile, file: Any) -> bool:
    try:
        CheckedFile(cold.uri, lambda at, count: file.read_at(count, at), cold.size, cold.checksum)
    except CorruptStorageError:
        return False
    return True


def delete_file(uri: str, log_id: str) -> None:
    """Delete a file of a log, also where it is an attempt; harmless when it is gone.

    Raises `CorruptStorageError` for a place that cannot be a file of this log, and deletes nothing
    there; `ColdTierError`, `ConfigurationError`.
    """
    system, path = _ours(uri, log_id)
    _, attempt = _ours(attempt_of(uri), log_id)
    for each in (attempt, path):  # in this order: an attempt that is gone cannot move any more
        with tier_errors(uri), suppress(FileNotFoundError):
            system.delete_file(each)


def _ours(uri: str, log_id: str) -> tuple[Any, str]:
    """The file system and the path of a file of this log. Raises as `delete_file`."""
    system, path = locate(uri)
    if not is_ours(path, log_id):
        raise CorruptStorageError(
            uri, f"no file of log id {log_id!r} has this name: the record that names it is wrong"
        )
    return system, path


def delete_tier(tier: str, log_id: str) -> None:
    """Delete a log's files in a tier, one by one, then its directories where they are empty.

    A tier that does not exist has no files. What else lies there stays. Raises `ColdTierError`,
    `ConfigurationError`.
    """
    delete_probes(tier, log_id)
    for name in sorted(set.union(*list_files(tier, log_id))):
        delete_file(join(tier, name), log_id)
    for directory in (join(tier, ATTEMPTS), tier):
        _drop_if_empty(directory)


def probe(tier: str) -> None:
    """Write a small file below a tier, read it back and remove it.

    Raises `ColdTierError` when a step fails, `ConfigurationError`.
    """
    directory = join(tier, ATTEMPTS)
    system, path = locate(join(directory, f"probe-{secrets.token_hex(4)}"))
    with tier_errors(tier):
        system.create_dir(os.path.dirname(path), recursive=True)
        with system.open_output_stream(path) as sink:
            sink.write(_PROBE)
        with system.open_input_file(path) as source:
            found = source.read()
        system.delete_file(path)
    if found != _PROBE:
        raise ColdTierError(tier, f"it gave {len(found)} other bytes than the probe wrote")


def delete_probes(tier: str, log_id: str) -> None:
    """Remove what killed probes left. Raises `ColdTierError`, `ConfigurationError`."""
    directory = join(tier, ATTEMPTS)
    for name in filter(is_probe, list_names(directory, log_id)):
        system, path = _ours(join(directory, name), log_id)
        with tier_errors(tier), suppress(FileNotFoundError):
            system.delete_file(path)


def _drop_if_empty(directory: str) -> None:
    """Object stores have no directories; a local one goes by a call that spares a full one."""
    system, path = locate(directory)
    if isinstance(system, fs.LocalFileSystem):
        with suppress(OSError):
            os.rmdir(path)


def sync_one(path: str) -> None:
    """Have a local file, or the names in a local directory, survive a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
