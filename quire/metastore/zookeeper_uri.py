"""The parts of a `zk://` URI: servers, root, and credentials.

    zk://zoo1:2281,zoo2:2281,zoo3:2281/quire?tls=yes&ca=/etc/quire/ca.pem&auth=sasl&
        credentials=/etc/quire/zookeeper&acl=private

    tls=yes             speak TLS; the servers' certificates are verified, their names included
    verify=no           do not verify (TLS then protects from listening, not from interference)
    ca=FILE             certificates that are trusted, PEM; without it the system's certificates
    certificate=FILE    our own, with key=FILE, for servers that ask for one
    auth=digest|sasl    our identity: `digest` sends name and password, so use it over TLS; `sasl`
                        is DIGEST-MD5 and needs the package pure-sasl
    credentials=FILE    `name:password` in one line. URIs show in process lists and logs; a secret
                        has no place there, only the file's name
    acl=open            every client can read and change records (the default without an identity)
    acl=private         only we can, as auth or the certificate says (the default with an identity)
    acl=readable        every client can read records, only we can change them
    owners=IDENTITY     another identity that can do what we can; may be given several times
    readers=IDENTITY    an identity that can read; may be given several times

An ACL is given to records when they are created (zookeeper_access.py); `quire metadata protect`
changes those that exist. The module is pure: it reads no file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from enum import StrEnum
from ipaddress import AddressValueError, IPv6Address
from typing import Any, Final
from urllib.parse import parse_qsl

from quire.errors import ConfigurationError, InvalidRequestError
from quire.metastore.layout import check_path
from quire.metastore.zookeeper_access import (
    Access,
    Grant,
    ZooKeeperIdentity,
    grants,
    parse_identity,
)

PORT: Final = 2181
"""Where ZooKeeper listens unless told otherwise."""

PORT_MAX: Final = 65_535

_URI: Final = re.compile(
    r"zk://(?P<hosts>[^/?,]+(?:,[^/?,]+)*)(?P<root>/[^?]*)?(?:\?(?P<query>.*))?"
)
_HOST: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")


_LISTS: Final = frozenset({"owners", "readers"})


class Auth(StrEnum):
    """How a client authenticates."""

    DIGEST = "digest"
    SASL = "sasl"


@dataclass(frozen=True, slots=True)
class ZooKeeperOptions:
    """How to be let in. Files are paths; see the module. Raises `ConfigurationError`."""

    tls: bool = False
    verify: bool = True
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    auth: Auth | None = None
    credentials: str | None = None
    acl: Access | None = None
    owners: tuple[ZooKeeperIdentity, ...] = ()
    readers: tuple[ZooKeeperIdentity, ...] = ()

    def __post_init__(self) -> None:
        if not self.tls and (self.ca or self.certificate or self.key or not self.verify):
            raise ConfigurationError("ca, certificate, key and verify make sense with tls=yes only")
        if bool(self.certificate) != bool(self.key):
            raise ConfigurationError("certificate and key go together")
        if bool(self.auth) != bool(self.credentials):
            raise ConfigurationError("auth and credentials go together")
        if self.access is not Access.OPEN and not self.has_identity:
            raise ConfigurationError(
                f"acl={self.acl} needs auth or a certificate: give auth= and credentials=, or "
                "certificate= and key="
            )
        if self.access is Access.OPEN and (self.owners or self.readers):
            raise ConfigurationError(
                "owners and readers are for acl=private and acl=readable: every client can do "
                "everything with open records"
            )

    @property
    def files(self) -> tuple[str | None, ...]:
        """The files of TLS."""
        return self.ca, self.certificate, self.key

    @property
    def has_identity(self) -> bool:
        """Whether the servers can know us."""
        return bool(self.auth or self.certificate)

    @property
    def access(self) -> Access:
        """Which clients may use the records we create: `acl`, or its default."""
        return self.acl or (Access.PRIVATE if self.has_identity else Access.OPEN)

    def grants(self, path: str) -> list[Grant]:
        """Return the ACL of a record that we create."""
        return grants(path, self.access, self.owners, self.readers)


@dataclass(frozen=True, slots=True)
class ZooKeeperUri:
    """A parsed URI: hosts as ZooKeeper's clients take them, the root without its last slash."""

    hosts: str
    root: str = ""
    options: ZooKeeperOptions = ZooKeeperOptions()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Each server's name and port."""
        return [_address(host) for host in self.hosts.split(",")]


def parse_uri(uri: str) -> ZooKeeperUri:
    """Return the parts of a `zk://` URI. Raises `ConfigurationError` naming its defect."""
    match = _URI.fullmatch(uri)
    if not match or not all(map(_is_server, match["hosts"].split(","))):
        raise ConfigurationError(
            f"{uri!r} names no ZooKeeper ensemble: it must be zk://host:2181,host:2181/root, with "
            f"ports from 1 to {PORT_MAX} and IPv6 addresses in brackets"
        )
    root = (match["root"] or "").rstrip("/")
    try:
        root = root and check_path(root)
    except InvalidRequestError as error:
        raise ConfigurationError(f"{uri!r} has an unusable root: {error}") from error
    try:
        return ZooKeeperUri(match["hosts"], root, _parse_options(match["query"] or ""))
    except ConfigurationError as error:
        raise ConfigurationError(f"{uri!r}: {error}") from error


def parse_credentials(path: str, text: str) -> tuple[str, str]:
    """Return name and password from the text of a credentials file. Raises `ConfigurationError`
    that names the file and shows nothing of it.
    """
    lines = text.strip().splitlines()
    name, colon, password = lines[0].partition(":") if len(lines) == 1 else ("", "", "")
    if not name or not colon or not password:
        raise ConfigurationError(f"{path} does not hold one line name:password")
    return name, password


def _parse_options(query: str) -> ZooKeeperOptions:
    try:
        pairs = parse_qsl(query, strict_parsing=True, keep_blank_values=True) if query else []
    except ValueError as error:
        raise ConfigurationError(f"{query!r} is not name=value&name=value") from error
    known = {field.name for field in fields(ZooKeeperOptions)}
    values: dict[str, Any] = {}
    for name, text in pairs:
        if name in _LISTS and text:
            values[name] = (*values.get(name, ()), parse_identity(text))
            continue
        if name not in known or name in values or not text:
            once = sorted(known - _LISTS)
            raise ConfigurationError(
                f"{name}={text}: each of {', '.join(once)} can be given once, and "
                f"{' and '.join(sorted(_LISTS))} several times"
            )
        values[name] = _parse_value(name, text)
    return ZooKeeperOptions(**values)


def _parse_value(name: str, text: str) -> object:
    legal: dict[str, Any] = {
        "tls": {"yes": True, "no": False},
        "verify": {"yes": True, "no": False},
        "auth": {each.value: each for each in Auth},
        "acl": {each.value: each for each in Access},
    }
    if name not in legal:
        return text
    if text not in legal[name]:
        raise ConfigurationError(f"{name}={text}: it must be one of {', '.join(legal[name])}")
    return legal[name][text]


def _is_server(host: str) -> bool:
    if not _HOST.fullmatch(host):
        return False
    name, port = _address(host)
    if host.startswith("["):
        try:
            IPv6Address(name)
        except AddressValueError:
            return False
    return 1 <= port <= PORT_MAX  # kazoo takes 0 for a port that was not given


def _address(host: str) -> tuple[str, int]:
    match = _HOST.fullmatch(host)
    assert match is not None
    return match["name"].strip("[]"), PORT if match["port"] is None else int(match["port"])
