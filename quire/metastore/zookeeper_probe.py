"""Asking a ZooKeeper server how it is, without a session.

The question is the four-letter word `srvr`, which every server answers unless told not to, and in
full only when it takes requests (`ruok` is answered too early). Calls block for PROBE_SECONDS to
connect and as long again to read, whatever answers there; from an event loop make them in a thread.
"""

from __future__ import annotations

import re
import socket
import time
from dataclasses import dataclass
from typing import Final

PROBE_SECONDS: Final = 1.0

ANSWER_BYTES_MAX: Final = 64 * 1024
"""A status has some hundred bytes. Another program at the port may send without end."""

_VERSION: Final = re.compile(r"^Zookeeper version: ([0-9.]+)", re.MULTILINE)
_MODE: Final = re.compile(r"^Mode: (\S+)", re.MULTILINE)
_RECORDS: Final = re.compile(r"^Node count: (\d{1,18})\b", re.MULTILINE)
_ZXID: Final = re.compile(r"^Zxid: 0x([0-9a-f]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A serving server's description of itself."""

    version: str
    mode: str
    """`standalone`, `leader`, `follower` or `observer`."""
    records: int
    zxid: int
    """The last change that it has."""

    def is_older_than(self, seen: int) -> bool:
        """Return whether the server's data ends before a change that a client has seen.

        A follower may only lag. A leader, or a server alone, has every change that was ever
        answered, unless its data was replaced by an older copy.
        """
        return self.mode in ("standalone", "leader") and self.zxid < seen


def probe(host: str, port: int, seconds: float = PROBE_SECONDS) -> ServerStatus | None:
    """Return the status of a server; None when it does not serve, or does not say."""
    try:
        with socket.create_connection((host, port), seconds) as connection:
            connection.sendall(b"srvr")
            said = _read_all(connection, time.monotonic() + seconds)
    except OSError:
        return None
    text = said.decode(errors="replace")
    found = [pattern.search(text) for pattern in (_VERSION, _MODE, _RECORDS, _ZXID)]
    if not all(found):
        return None
    version, mode, records, zxid = (each[1] for each in found if each)
    return ServerStatus(version.rstrip("."), mode, int(records), int(zxid, 16))


def _read_all(connection: socket.socket, deadline: float) -> bytes:
    """Return all bytes until the end. Raises `OSError` when it is too late or too much."""
    said = bytearray()
    while (left := deadline - time.monotonic()) > 0 and len(said) <= ANSWER_BYTES_MAX:
        connection.settimeout(left)
        data = connection.recv(4096)
        if not data:
            return bytes(said)
        said += data
    raise TimeoutError("too late or too long for the status of a server")
