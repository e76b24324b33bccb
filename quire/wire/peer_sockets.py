"""Ending the connection of a peer of a gRPC server, which gRPC itself does not offer.

A call that is aborted ends after its client has taken the part that was sent before: gRPC keeps the
order. So a client that takes nothing keeps its call, and the memory of that part, for as long as it
likes. Only the end of its connection frees both. The connection's socket is one of this process,
and the system knows it by the addresses of its two ends.

The descriptor is duplicated before it is looked at, so it cannot become another file meanwhile; and
it is shut down, never closed: gRPC finds the end of the stream and closes it.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from typing import Final
from urllib.parse import unquote

DESCRIPTORS: Final = ("/proc/self/fd", "/dev/fd")
"""Where a system lists the descriptors of the process that asks."""


_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)


def end_connection(peer: str) -> bool:
    """End the connection of a peer now.

    Args:
        peer: as `ServerContext.peer()` names it: `ipv4:127.0.0.1:5000`, `ipv6:%5B::1%5D:5000`.

    Returns:
        Whether it was found. It takes some milliseconds for each thousand descriptors.
    """
    wanted = parse_peer(peer)
    return wanted is not None and any(end_at(each, wanted) for each in _descriptors())


def peers_at(port: int) -> dict[tuple[str, int], int]:
    """Return the other ends of all connections to a port of this process, with a descriptor of
    each. The descriptor may be another file as soon as it is returned: `end_at` looks again.
    """
    found = dict[tuple[str, int], int]()
    for descriptor in _descriptors():
        with suppress(OSError):  # it was closed meanwhile, or listens
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                with socket.socket(fileno=os.dup(descriptor)) as own:
                    if own.family in _FAMILIES and own.getsockname()[1] == port:
                        found[_address(own)] = descriptor
    return found


def parse_peer(peer: str) -> tuple[str, int] | None:
    """Return host and port of a peer, None for a peer that has none."""
    kind, _, rest = unquote(peer).partition(":")
    host, _, port = rest.rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    return host.strip("[]"), int(port)


def _descriptors() -> list[int]:
    for directory in DESCRIPTORS:
        with suppress(OSError):
            return sorted(int(name) for name in os.listdir(directory) if name.isdecimal())
    return []


def end_at(descriptor: int, peer: tuple[str, int]) -> bool:
    """Shut a descriptor down if it is a connection of the peer; return whether it is."""
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        with socket.socket(fileno=os.dup(descriptor)) as own:
            if own.family not in _FAMILIES or _address(own) != peer:
                return False
            own.shutdown(socket.SHUT_RDWR)
            return True
    except OSError:  # it was closed meanwhile, or listens
        return False


def _address(connection: socket.socket) -> tuple[str, int]:
    host, port = connection.getpeername()[:2]
    return host.removeprefix("::ffff:").partition("%")[0], port
