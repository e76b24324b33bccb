"""A tier as a place: what is below it, whether it takes files, and how files leave it.

A record of the metadata store can name any place, so a record is never enough. A path is believed
when its last directory is the log's id and its name is the name of an attempt (cold.py): this
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

from quire.errors import ConfigurationError, CorruptStorageError
from quire.log.cold import ATTEMPTS, ColdTierError, is_ours, is_probe, join

_PROBE: Final = b"quire wrote this to see whether it can, and removes it\n"


def locate(uri: str) -> tuple[Any, str]:
    """Return the file system and the path of a URI. Raises `ConfigurationError`."""
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise ConfigurationError(f"{uri!r} is no place for cold segments: {error}") from error
    return found


@contextmanager
def tier_errors(uri: str) -> Iterator[None]:
    """What a file system says about more than one file is a matter of trying again."""
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


def delete_file(uri: str, log_id: str) -> None:
    """Delete a file of a log; harmless when it is gone.

    Raises `CorruptStorageError` for a place that cannot be a file of this log, and deletes nothing
    there; `ColdTierError`, `ConfigurationError`.
    """
    system, path = locate(uri)
    if not is_ours(path, log_id):
        raise CorruptStorageError(
            uri, f"no file of log id {log_id!r} has this name: the record that names it is wrong"
        )
    with tier_errors(uri), suppress(FileNotFoundError):
        system.delete_file(path)


def delete_tier(tier: str, log_id: str) -> None:
    """Delete a log's files in a tier, one by one, then its directories where they are empty.

    A tier that does not exist has no files. What else lies there stays. Raises `ColdTierError`,
    `ConfigurationError`.
    """
    for directory in (join(tier, ATTEMPTS), tier):
        for name in list_names(directory, log_id):
            delete_file(join(directory, name), log_id)
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
        delete_file(join(directory, name), log_id)


def _drop_if_empty(directory: str) -> None:
    """Object stores have no directories; a local one goes by a call that spares a full one."""
    system, path = locate(directory)
    if isinstance(system, fs.LocalFileSystem):
        with suppress(OSError):
            os.rmdir(path)
