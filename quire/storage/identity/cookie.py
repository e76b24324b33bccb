"""The cookie: it names the bookie that owns the data of a directory.

A bookie's id is the identity of its data, so it is made when the disk is formatted and never again:
a wiped bookie is a new bookie. The cookie is written last, after the first checkpoint. So a
directory with a cookie is complete, and a directory that lost all other files is not mistaken for a
fresh one. The same record stands in the metadata store (identity.py); a bookie starts only if both
are there and agree.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from quire.errors import ConfigurationError, CorruptStorageError, WrongBookieError
from quire.fields import NOTHING, Unknown, joined, split
from quire.storage.disk.port import Disk
from quire.storage.disk.renewal import renew_state
from quire.storage.disk.state_file import (
    TEMPORARY_SUFFIX,
    decode_state,
    encode_state,
    read_state,
    write_state,
)
from quire.storage.entries.checkpoint import FIRST, PATHS, encode_checkpoint, write_checkpoint

COOKIE: Final = "cookie"
VERSION: Final = 1
LAYOUT: Final = 1
"""Version of the directory's layout as a whole, when it is one directory."""

LAYOUT_OF_PARTS: Final = 2
"""The same of a bookie with several directories: a program that knows of one must not serve it."""

ID_BYTES_MAX: Final = 32
FIELDS: Final = frozenset({"bookie", "cluster", "layout", "parts", "part"})
_PART_FIELDS: Final = frozenset({"id", "role", "path"})
FIRST_PATH: Final = PATHS[FIRST.generation % 2]
IGNORED: Final = frozenset({COOKIE + TEMPORARY_SUFFIX, FIRST_PATH + TEMPORARY_SUFFIX, "lost+found"})
"""Names an unformatted directory may have: an interrupted format, and the root of a file system."""


class Role(StrEnum):
    """The purpose of a directory beside the main one."""

    JOURNAL = "journal"
    ENTRIES = "entries"


@dataclass(frozen=True, slots=True)
class Part:
    """A directory as the main one's cookie names it."""

    id: str
    role: Role
    path: str
    """Absolute; empty: the main directory itself."""
    unknown: Unknown = field(default=NOTHING, compare=False)

    def body(self) -> dict[str, Any]:
        """Return the part as a cookie holds it."""
        fields = {"id": self.id, "role": str(self.role), "path": self.path}
        return joined(fields, self.unknown)


@dataclass(frozen=True, slots=True)
class BookieCookie:
    """Identity of a bookie's directory. Ids are hexadecimal digits, at most 32."""

    bookie: str
    cluster: str
    layout: int = LAYOUT
    parts: tuple[Part, ...] = ()
    """In the main directory: where journal and entry logs are, when not in it."""
    part: str = ""
    """In another directory: which part it is."""
    unknown: Unknown = field(default=NOTHING, compare=False)
    """Of a later program. The cookie and its twin may differ in it."""

    def __post_init__(self) -> None:
        for name, value in (("bookie", self.bookie), ("cluster", self.cluster)):
            if not value or not value.isascii() or not value.isprintable() or "/" in value:
                raise ConfigurationError(f"{name} id {value!r} cannot stand in a cookie")
        if len(self.bookie) > ID_BYTES_MAX:
            raise ConfigurationError(f"bookie id {self.bookie!r} is longer than {ID_BYTES_MAX}")

    def of_part(self, part: Part) -> BookieCookie:
        """Return the cookie of a part of this bookie."""
        return BookieCookie(self.bookie, self.cluster, LAYOUT_OF_PARTS, part=part.id)

    def fields(self) -> dict[str, Any]:
        """Return the fields that this program knows."""
        body: dict[str, Any] = {
            "bookie": self.bookie,
            "cluster": self.cluster,
            "layout": self.layout,
        }
        if self.parts:
            body["parts"] = [part.body() for part in self.parts]
        if self.part:
            body["part"] = self.part
        return body

    def body(self) -> dict[str, Any]:
        """Return the cookie as a state file holds it."""
        return joined(self.fields(), self.unknown)

    @classmethod
    def of(cls, path: str, body: Mapping[str, Any]) -> BookieCookie:
        """Return the cookie in a record's body. Raises `CorruptStorageError` naming the path."""
        try:
            if not all(isinstance(body.get(name), str) for name in ("bookie", "cluster")):
                raise TypeError("an id is not text")
            if type(body.get("layout")) is not int:
                raise TypeError("its layout is not a number")
            mine, unknown = split(body, FIELDS)
            parts = tuple(map(_part, mine.get("parts", ())))
            return cls(**{**mine, "parts": parts}, unknown=unknown)
        except (TypeError, ValueError, ConfigurationError) as error:
            raise CorruptStorageError(path, f"not a cookie: {error}") from error

    def check(self, what: str, found: BookieCookie) -> None:
        """Raise `WrongBookieError` unless `found` is this identity."""
        for kind, mine, theirs in (
            ("cluster", self.cluster, found.cluster),
            ("bookie", self.bookie, found.bookie),
        ):
            if mine != theirs:
                raise WrongBookieError(what, f"{kind} {mine}", f"{kind} {theirs}")
        if found.layout not in (LAYOUT, LAYOUT_OF_PARTS):
            raise ConfigurationError(
                f"{what} has layout {found.layout}, this program knows {LAYOUT_OF_PARTS}"
            )


def _part(fields: Any) -> Part:
    """Return a part from its fields. Raises TypeError and ValueError."""
    mine, unknown = split(fields, _PART_FIELDS)
    part = Part(**{**mine, "role": Role(fields["role"])}, unknown=unknown)
    if not all(isinstance(each, str) for each in (part.id, part.path)) or not part.id:
        raise TypeError(f"part {fields}")
    return part


def encode_cookie(cookie: BookieCookie) -> bytes:
    """Return the cookie file."""
    return encode_state(COOKIE, VERSION, cookie.body())


def decode_cookie(path: str, data: bytes) -> BookieCookie:
    """Raises `CorruptStorageError` naming the path."""
    return BookieCookie.of(path, decode_state(path, COOKIE, VERSION, data))


async def format_bookie(disk: Disk, bookie: str, cluster: str) -> BookieCookie:
    """Make an empty disk a bookie's. Formatting twice with the same ids is harmless.

    Raises `ConfigurationError` when the disk is not empty and has no cookie, `WrongBookieError`
    when it belongs to another bookie, `CorruptStorageError` when its cookie is damaged. Never
    deletes.
    """
    cookie = BookieCookie(bookie, cluster)
    found = await read_cookie(disk)
    if found is not None:
        cookie.check("the directory", found)
        return found
    await write_main_cookie(disk, cookie)
    return cookie


async def write_main_cookie(disk: Disk, cookie: BookieCookie) -> None:
    """Make an empty disk a bookie's main one. Raises as `check_empty`."""
    await check_empty(disk)
    await write_checkpoint(disk, FIRST)
    await write_state(disk, COOKIE, encode_cookie(cookie))


async def write_first_cookie(disk: Disk, cookie: BookieCookie) -> None:
    """Write the cookie of a part that has none. Raises as `check_empty`."""
    await check_empty(disk)
    await write_state(disk, COOKIE, encode_cookie(cookie))


async def check_empty(disk: Disk) -> None:
    """Raise `ConfigurationError` when a disk holds anything."""
    names = [name for name in await disk.list() if name not in IGNORED]
    if names == [FIRST_PATH] and await read_state(disk, FIRST_PATH) == encode_checkpoint(FIRST):
        return  # an interrupted format got so far
    if names:
        raise ConfigurationError(
            f"the directory has no cookie but holds {', '.join(names[:5])}: "
            "format an empty directory, or restore the cookie"
        )


async def read_cookie(disk: Disk) -> BookieCookie | None:
    """Return the disk's cookie; None when it has none. Raises `CorruptStorageError`."""
    data = await read_state(disk, COOKIE)
    return None if data is None else decode_cookie(COOKIE, data)


async def renew_cookie(disk: Disk) -> None:
    """Make the cookie's name durable, which a failed sync of the directory may have lost: the page
    cache shows it until the power fails (quire/storage/disk/renewal.py). On a full disk it stays as
    it is, and the next start with space does it. Raises OSError.
    """
    try:
        await renew_state(disk, COOKIE)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


async def check_cookie(disk: Disk, bookie: str, cluster: str) -> BookieCookie:
    """Return the cookie if it is this bookie's; else raise as `format_bookie`, or that there is
    none.
    """
    found = await read_cookie(disk)
    if found is None:
        raise ConfigurationError("the directory has no cookie: format it first")
    BookieCookie(bookie, cluster).check("the directory", found)
    return found
