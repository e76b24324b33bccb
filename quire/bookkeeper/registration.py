"""The registration and the cookie of a bookie of Apache's.

A registration is ephemeral, below `available`, or below `available/readonly` when the bookie takes
no new entries. Its value is a message that names endpoints; old releases leave it empty, and the
bookie's id is its address then. A cookie stays: it names the directories of a bookie and the
instance of the cluster. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quire.bookie import BookieAddress
from quire.bookkeeper import text_format
from quire.bookkeeper.protobuf import MalformedError, Message, encode
from quire.entry import BookieId
from quire.errors import CorruptRecordError

PROTOCOL: Final = "bookkeeper"
"""The protocol of these bookies, in `BookieAddress.protocol`."""

ENDPOINT: Final = "bookie-rpc"
"""The endpoint that clients use."""

_ID: Final = re.compile(r"[A-Za-z0-9:;<=>?@\[\\\]^_.-]+")
_ADDRESS: Final = re.compile(r".+:[0-9]{1,5}")
_COOKIE: Final = re.compile(r"(?P<version>[0-9]+)\n(?P<body>.*)", re.DOTALL)


def is_bookie(name: str) -> bool:
    """Whether a name below `available` or `cookies` is a bookie's id."""
    return name != "readonly" and _ID.fullmatch(name) is not None


def encode_registration(address: BookieAddress) -> bytes:
    """Return the registration of a bookie at an address."""
    host, _, port = address.address.rpartition(":")
    endpoint = encode([(1, "bookie"), (2, int(port)), (3, host.strip("[]")), (4, ENDPOINT)])
    return encode([(6, endpoint)])


def decode_registration(
    path: str, bookie: BookieId, data: bytes, *, writable: bool
) -> BookieAddress:
    """Return the bookie that a registration is of. Raises `CorruptRecordError`."""
    try:
        address = _endpoint(data) if data else bookie
    except ValueError as error:
        raise CorruptRecordError(path, str(error)) from error
    if address is None or not _ADDRESS.fullmatch(address):
        raise CorruptRecordError(
            path, f"it lacks an endpoint {ENDPOINT}, and {bookie!r} is not host:port"
        )
    return BookieAddress(bookie, address, writable, protocol=PROTOCOL)


def _endpoint(data: bytes) -> str | None:
    for part in map(Message, Message(data).parts(6)):
        if part.text(4, "") == ENDPOINT:
            host, port = part.text(3), part.number(2)
            if not host or not 0 < port < 65_536:
                raise MalformedError(f"endpoint {host!r}, port {port}")
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return None


@dataclass(frozen=True, slots=True)
class Cookie:
    """The identity of a bookie's directories."""

    host: str
    instance: str
    """The instance of the cluster, empty in cookies of old releases."""
    journal: str
    ledgers: tuple[str, ...]


def decode_cookie(path: str, data: bytes) -> Cookie:
    """Return the contents of a cookie. Raises `CorruptRecordError`."""
    found = _COOKIE.fullmatch(data.decode(errors="replace"))
    if found is None or int(found["version"]) < 4:
        raise CorruptRecordError(path, f"{data[:40]!r} is not a cookie of version 4 or later")
    try:
        fields = dict(text_format.parse(found["body"]))
        return Cookie(
            _text(fields, "bookieHost"),
            _text(fields, "instanceId") if "instanceId" in fields else "",
            _text(fields, "journalDir"),
            tuple(_text(fields, "ledgerDirs").split("\t")[1:]),
        )
    except MalformedError as error:
        raise CorruptRecordError(path, str(error)) from error


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, bytes):
        raise MalformedError(f"{name} is {value!r}")
    return value.decode(errors="replace")
