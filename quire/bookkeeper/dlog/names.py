"""Names of logs and places in them, in DistributedLog's own forms. Pure.

/messaging/orders                          a log, by its path in ZooKeeper: namespace and name
distributedlog://zoo1:2181/messaging/orders   the same, with the servers
4:17:2                                     a DLSN: segment, entry, slot
AQAAAAAAAAAE…                              the same, as DistributedLog's library writes it
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from dataclasses import dataclass
from typing import Final

from quire.errors import ConfigurationError, InvalidRequestError
from quire.metastore.layout import check_path, parent_of

STREAM: Final = "<default>"
"""The one part that each log has; DistributedLog once divided logs into several."""

_SCHEMES: Final = ("distributedlog", "distributedlog-bk")
_DLSN: Final = re.compile(r"([0-9]{1,19}):([0-9]{1,19}):([0-9]{1,19})")
_SERIAL: Final = struct.Struct(">Bqqq")
_SERIAL_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class DlogName:
    """A log by its path."""

    path: str
    """Namespace and name, below the root of the store's URI."""
    servers: frozenset[str] | None = None
    """The servers that a URI named, each `host:port`; None for a path alone."""

    @classmethod
    def parse(cls, text: str) -> DlogName:
        """Return the log that a path or URI means. Raises `ConfigurationError`."""
        scheme, colon, rest = text.partition("://")
        servers = None
        path = text
        if colon:
            hosts, slash, below = rest.partition("/")
            path = slash + below
            if scheme not in _SCHEMES or not hosts:
                raise ConfigurationError(_form(text))
            servers = servers_of(hosts)
        try:
            check_path(path)
        except InvalidRequestError as error:
            raise ConfigurationError(f"{_form(text)}: {error}") from error
        if parent_of(path) == "/":
            raise ConfigurationError(f"{_form(text)}: it names a namespace or a log, not both")
        return cls(path, servers)

    def __str__(self) -> str:
        return self.path

    @property
    def segments_path(self) -> str:
        """The path of the records of its segments."""
        return f"{self.path}/{STREAM}/ledgers"

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The paths that may be its namespace, the longest first: a name may have slashes."""
        parts = self.path.split("/")
        return tuple("/".join(parts[:end]) for end in range(len(parts) - 1, 1, -1))


def _form(text: str) -> str:
    return (
        f"log {text!r} is not in the form /namespace/name or "
        "distributedlog://host:2181/namespace/name"
    )


def servers_of(hosts: str) -> frozenset[str]:
    """Return servers of ZooKeeper that stand between commas or semicolons, each with its port."""
    return frozenset(map(_with_port, re.split("[;,]", hosts)))


def _with_port(host: str) -> str:
    return host if re.search(r":[0-9]+\Z", host) else f"{host}:2181"


@dataclass(frozen=True, slots=True, order=True)
class Dlsn:
    """Where a record is: DistributedLog's sequence number. DLSNs of a log have its order."""

    segment: int
    entry: int
    slot: int

    @classmethod
    def parse(cls, text: str) -> Dlsn:
        """Return the DLSN that a text means. Raises `InvalidRequestError`."""
        if found := _DLSN.fullmatch(text):
            return cls(*map(int, found.groups()))
        try:
            data = base64.b64decode(text, validate=True)
            version, *places = _SERIAL.unpack(data)
        except (binascii.Error, ValueError, struct.error):
            version, places = None, []
        if version != _SERIAL_VERSION or min(places) < 0:
            raise InvalidRequestError(
                f"DLSN {text!r} is not in the form SEGMENT:ENTRY:SLOT, as 4:17:2, nor the "
                "text that DistributedLog's library writes"
            )
        return cls(*places)

    def __str__(self) -> str:
        return f"{self.segment}:{self.entry}:{self.slot}"

    @property
    def next(self) -> Dlsn:
        """The lowest DLSN above this one: where a reader goes on after this record."""
        return Dlsn(self.segment, self.entry, self.slot + 1)
