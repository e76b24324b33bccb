"""Small files that are replaced as a whole: cookie and checkpoint.

One ASCII line, then JSON for people to read (docs/formats.md, "State files"):

    quire <kind> v<version> crc32c=<8 hex digits>

The checksum covers kind, version and body. Replacing is: write a temporary file, sync it, rename it
over the old one, sync the directory. A crash leaves the old content or the new, never a mixture.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from typing import Any, Final

from quire.errors import CorruptStorageError
from quire.storage.disk.blocks import crc32c
from quire.storage.disk.port import Disk, NotAFileError

TEMPORARY_SUFFIX: Final = ".new"
STATE_BYTES_MAX: Final = 64 * 1024 * 1024


def _checksum(title: str, body: bytes) -> str:
    return f"{crc32c(body, crc32c(title.encode())):08x}"


def encode_state(kind: str, version: int, body: Mapping[str, Any]) -> bytes:
    """Return the bytes of a state file."""
    text = json.dumps(body, sort_keys=True, ensure_ascii=False).encode()
    title = f"quire {kind} v{version}"
    return f"{title} crc32c={_checksum(title, text)}\n".encode() + text + b"\n"


def decode_state(path: str, kind: str, version: int, data: bytes) -> dict[str, Any]:
    """Return the body of a state file. Raises `CorruptStorageError` naming the file."""
    line, _, text = data.partition(b"\n")
    title, _, checksum = line.decode("ascii", "replace").rpartition(" crc32c=")
    if not title.startswith(f"quire {kind} v"):
        raise CorruptStorageError(path, f"it is not a {kind}")
    if not text.endswith(b"\n") or checksum != _checksum(title, text[:-1]):
        raise CorruptStorageError(path, f"the {kind} fails its checksum")
    if title != f"quire {kind} v{version}":
        raise CorruptStorageError(path, f"{title!r} is of a version unknown to this program")
    body: dict[str, Any] = json.loads(text)
    return body


async def write_state(disk: Disk, path: str, data: bytes) -> None:
    """Replace a file as a whole, durably. OSError: the old content or the new is there; after
    ENOSPC the old.
    """
    temporary = path + TEMPORARY_SUFFIX
    directory, _, name = temporary.rpartition("/")
    if name in await disk.list(directory):
        await disk.unlink(temporary)
    file = await disk.open(temporary, create=True)
    try:
        await file.write(0, [data], sync=True)
    finally:
        await file.close()
    await disk.rename(temporary, path)
    await sync_names(disk, directory)


async def sync_names(disk: Disk, directory: str) -> None:
    """Make changed names in a directory durable. Raises OSError, but not ENOSPC, after which
    nothing would have changed: the names have, and the next process may find either.
    """
    try:
        await disk.sync_directory(directory)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        where = directory or "the bookie's directory"
        raise OSError(errno.EIO, f"names in {where} cannot be synced: {error}") from error


async def read_state(disk: Disk, path: str, *, bytes_max: int = STATE_BYTES_MAX) -> bytes | None:
    """Return a state file's bytes, `bytes_max` at most; None when it does not exist.

    Raises OSError, and `CorruptStorageError` when something else than a file has its name.
    """
    try:
        file = await disk.open(path)
    except FileNotFoundError:
        return None
    except NotAFileError as error:
        raise CorruptStorageError(path, str(error.strerror)) from error
    try:
        return await file.read(0, min(file.size, bytes_max))
    finally:
        await file.close()
