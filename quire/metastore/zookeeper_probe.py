"""Asking a ZooKeeper server how it is, without a session.

The question is the four-letter word `srvr`, which every server answers unless told not to, and in
full only when it takes requests (`ruok` is answered too early). Calls block for PROBE_SECONDS at
most; from an event loop make them in a thread.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from typing import Final

PROBE_SECONDS: Final = 1.0

_VERSION: Final = re.compile(r"^Zookeeper version: ([0-9.]+)", re.MULTILINE)
_MODE: Final = re.compile(r"^Mode: (\S+)", re.MULTILINE)
_RECORDS: Final = re.compile(r"^Node count: (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What a server that serves says of itself."""

    version: str
    mode: str
    """`standalone`, `leader`, `follower` or `observer`."""
    records: int


def probe(host: str, port: int, seconds: float = PROBE_SECONDS) -> ServerStatus | None:
    """Return the status of a server; None when it does not serve, or does not say."""
    try:
        with socket.create_connection((host, port), seconds) as connection:
            connection.settimeout(seconds)
            connection.sendall(b"srvr")
            said = bytearray()
            while data := connection.recv(4096):
                said += data
    except OSError:
        return None
    text = said.decode(errors="replace")
    version, mode, records = (pattern.search(text) for pattern in (_VERSION, _MODE, _RECORDS))
    if not version or not mode or not records:
        return None
    return ServerStatus(version[1].rstrip("."), mode[1], int(records[1]))
