"""The part of a store's URI that names ledgers on Apache BookKeeper.

    zk://h1:2181,h2:2181/?ledgers=bookkeeper:/ledgers&write=true

    ledgers=bookkeeper:PATH   the path of the cluster's ledgers, below the URI's root
    write=true                create, append, recover, delete; without it everything is only read
    digest=crc32              the digest of ledgers if their records have none (of before 4.2)
    bookie-tls=yes            speak TLS to bookies, and to no bookie in plain text
    bookie-ca=FILE            certificates that are trusted, PEM; else the system's
    bookie-certificate=FILE   our own, with bookie-key=FILE, for bookies that ask for one
    bookie-names=no           do not compare a bookie's certificate with its address

Everything else of the URI is the metadata store's own. The module is pure: it reads no file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from quire.entry import DigestKind
from quire.errors import ConfigurationError, InvalidRequestError
from quire.metastore.layout import check_path

SCHEME: Final = "bookkeeper:"
DIGESTS: Final = tuple(kind for kind in DigestKind if kind is not DigestKind.HMAC_SHA256)
_NAMES: Final = (
    "ledgers",
    "write",
    "digest",
    "bookie-tls",
    "bookie-ca",
    "bookie-certificate",
    "bookie-key",
    "bookie-names",
)


@dataclass(frozen=True, slots=True)
class BookieTls:
    """How bookies are spoken to over TLS. Files are paths."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    names: bool = True

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.key):
            raise ConfigurationError("bookie-certificate and bookie-key go together")


@dataclass(frozen=True, slots=True)
class ApacheLedgers:
    """Where the ledgers are, and whether they may be changed."""

    root: str
    write: bool = False
    digest: DigestKind = DigestKind.CRC32
    tls: BookieTls | None = None


def split_uri(uri: str) -> tuple[str, ApacheLedgers | None]:
    """Return the store's own URI, and where its ledgers are on BookKeeper, None if it has none.

    Raises:
        ConfigurationError: an option is not known, or has an impossible value.
    """
    base, question, query = uri.partition("?")
    mine, others = {}, []
    for pair in query.split("&") if question else ():
        name = pair.partition("=")[0]
        if name not in _NAMES:
            others.append(pair)
            continue
        parsed = parse_qsl(pair, keep_blank_values=True)
        if name in mine or len(parsed) != 1 or not parsed[0][1]:
            raise ConfigurationError(f"{uri!r}: {name} is given once, with a value")
        mine[name] = parsed[0][1]
    store = f"{base}?{'&'.join(others)}" if others else base
    if not mine:
        return uri, None
    try:
        return store, _parse(mine)
    except ConfigurationError as error:
        raise ConfigurationError(f"{uri!r}: {error}") from error


def _parse(mine: dict[str, str]) -> ApacheLedgers:
    ledgers = mine.get("ledgers", "")
    if not ledgers.startswith(SCHEME):
        raise ConfigurationError(
            f"ledgers={ledgers or '…'} is needed in the form ledgers={SCHEME}/ledgers"
        )
    root = ledgers.removeprefix(SCHEME).rstrip("/")
    try:
        check_path(root)
    except InvalidRequestError as error:
        raise ConfigurationError(f"ledgers={ledgers} names no path: {error}") from error
    digest = mine.get("digest", DigestKind.CRC32.value)
    if digest not in DIGESTS:
        raise ConfigurationError(f"digest={digest}: it must be one of {', '.join(DIGESTS)}")
    return ApacheLedgers(root, _choice(mine, "write"), DigestKind(digest), _tls(mine))


def _tls(mine: dict[str, str]) -> BookieTls | None:
    wanted = _choice(mine, "bookie-tls")
    rest = [name for name in mine if name.startswith("bookie-") and name != "bookie-tls"]
    if not wanted:
        if rest:
            raise ConfigurationError(f"{rest[0]} makes sense with bookie-tls=yes only")
        return None
    return BookieTls(
        mine.get("bookie-ca"),
        mine.get("bookie-certificate"),
        mine.get("bookie-key"),
        _choice(mine, "bookie-names", otherwise=True),
    )


def _choice(mine: dict[str, str], name: str, *, otherwise: bool = False) -> bool:
    choices = {"true": True, "yes": True, "false": False, "no": False}
    text = mine.get(name)
    if text is None:
        return otherwise
    if text not in choices:
        raise ConfigurationError(f"{name}={text}: it must be yes or no")
    return choices[text]
