"""The cookie: whose data a directory holds.

A bookie's id is the identity of its data, so it is made when the disk is formatted and never again:
a wiped bookie is a new bookie. The cookie is written last, so a directory with a cookie is a whole
one. The same record stands in the metadata store (identity.py); a bookie starts only if both are
there and agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from quire.errors import ConfigurationError, CorruptStorageError, WrongBookieError
from quire.storage.disk import Disk
from quire.storage.state_file import (
    TEMPORARY_SUFFIX,
    decode_state,
    encode_state,
    read_state,
    write_state,
)

COOKIE: Final = "cookie"
VERSION: Final = 1
LAYOUT: Final = 1
"""Version of the directory's layout as a whole."""

ID_BYTES_MAX: Final = 32
IGNORED: Final = frozenset({COOKIE + TEMPORARY_SUFFIX, "lost+found"})
"""Names an unformatted directory may have: an interrupted format, and the root of a file system."""


@dataclass(frozen=True, slots=True)
class BookieCookie:
    """Identity of a bookie's directory. Ids are hexadecimal digits, at most 32."""

    bookie: str
    cluster: str
    layout: int = LAYOUT

    def __post_init__(self) -> None:
        for name, value in (("bookie", self.bookie), ("cluster", self.cluster)):
            if not value or not value.isascii() or not value.isprintable() or "/" in value:
                raise ConfigurationError(f"{name} id {value!r} cannot stand in a cookie")
        if len(self.bookie) > ID_BYTES_MAX:
            raise ConfigurationError(f"bookie id {self.bookie!r} is longer than {ID_BYTES_MAX}")

    def body(self) -> dict[str, Any]:
        """Return the cookie as the body of a record."""
        return asdict(self)

    @classmethod
    def of(cls, path: str, body: Mapping[str, Any]) -> BookieCookie:
        """Return the cookie in a record's body. Raises `CorruptStorageError` naming the path."""
        try:
            if not all(isinstance(body.get(name), str) for name in ("bookie", "cluster")):
                raise TypeError("an id is not text")
            if type(body.get("layout")) is not int:
                raise TypeError("its layout is not a number")
            return cls(**body)
        except (TypeError, ConfigurationError) as error:
            raise CorruptStorageError(path, f"it is no cookie: {error}") from error

    def check(self, what: str, found: BookieCookie) -> None:
        """Raise `WrongBookieError` unless `found` is this identity."""
        for mine, theirs in ((self.cluster, found.cluster), (self.bookie, found.bookie)):
            if mine != theirs:
                raise WrongBookieError(what, mine, theirs)
        if self.layout != found.layout:
            raise ConfigurationError(
                f"{what} has layout {found.layout}, this program knows {self.layout}"
            )


def encode_cookie(cookie: BookieCookie) -> bytes:
    """Return the cookie file."""
    return encode_state(COOKIE, VERSION, cookie.body())


def decode_cookie(path: str, data: bytes) -> BookieCookie:
    """Raises `CorruptStorageError` naming the path."""
    return BookieCookie.of(path, decode_state(path, COOKIE, VERSION, data))


async def format_bookie(disk: Disk, bookie: str, cluster: str) -> BookieCookie:
    """Make an empty disk a bookie's. Formatting twice with the same ids is harmless.

    Raises `ConfigurationError` when the disk is not empty and has no cookie, `WrongBookieError`
    when it belongs to somebody else, `CorruptStorageError` when its cookie is damaged. Never
    deletes.
    """
    cookie = BookieCookie(bookie, cluster)
    found = await read_cookie(disk)
    if found is not None:
        cookie.check("the directory", found)
        return found
    names = [name for name in await disk.list() if name not in IGNORED]
    if names:
        raise ConfigurationError(
            f"the directory has no cookie but holds {', '.join(names[:5])}: "
            "format an empty directory, or restore the cookie"
        )
    await write_state(disk, COOKIE, encode_cookie(cookie))
    return cookie


async def read_cookie(disk: Disk) -> BookieCookie | None:
    """Return the disk's cookie; None when it has none. Raises `CorruptStorageError`."""
    data = await read_state(disk, COOKIE)
    return None if data is None else decode_cookie(COOKIE, data)


async def check_cookie(disk: Disk, bookie: str, cluster: str) -> BookieCookie:
    """Return the cookie if it is this bookie's; else raise as `format_bookie`, or that there is
    none.
    """
    found = await read_cookie(disk)
    if found is None:
        raise ConfigurationError("the directory has no cookie: format it first")
    BookieCookie(bookie, cluster).check("the directory", found)
    return found
