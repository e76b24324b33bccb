"""Connections to a gRPC port that make no calls: some are ended, so that others find space.

gRPC ends a connection that does not speak HTTP/2 within 10 s, or that is idle for minutes. A
stranger with thousands of connections takes all of them in a second. A client of quire makes a
connection for a call, so a connection without a call is worth less than any other:

* after `first_seconds` it is ended;
* beyond the share of its peer the oldest of the peer are ended, then also the newest with calls: a
  connection with one long poll would keep its descriptor;
* beyond three quarters of all connections the oldest are ended, unless they are younger than
  `GRACE_SECONDS`: a quarter stays free for new connections.

`Idlers` decides, without I/O or clock. `watch` is its driver: it looks at the sockets of the
process, because gRPC does not tell of connections (quire/wire/peer_sockets.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Final, TypeAlias

from quire.aio.tasks import in_thread
from quire.storage.serving.refusals import Refusals
from quire.wire.identity import ANONYMOUS, owner_of
from quire.wire.peer_sockets import end_at, peers_at

Remote: TypeAlias = tuple[str, int]
"""Host and port of the other end."""

GRACE_SECONDS: Final = 1.0
"""A client gets so long between its connection and its first call."""

LOOK_SECONDS: Final = 5.0
"""Pause between two looks, when less than half of all connections are there."""

PRESSED_LOOK_SECONDS: Final = 1.0
"""The pause otherwise. A look takes some 10 µs for each connection, in a thread."""


class Idlers:
    """The connections of one port, and their calls.

    Args:
        connections: the port takes at most so many.
        peer_max: the share of one peer.
        first_seconds: a connection has so long for its first call.
    """

    def __init__(self, connections: int, peer_max: int, first_seconds: float) -> None:
        self._connections = connections
        self._full = connections * 3 // 4
        self._peer_max = peer_max
        self._first_seconds = first_seconds
        self._since: dict[Remote, float] = {}
        """When each was seen first; oldest first."""
        self._called: set[Remote] = set()
        self._fresh: set[Remote] = set()
        """Connections that called after the last look: it may have missed them."""

    @property
    def is_pressed(self) -> bool:
        """Whether more than half of all connections were there at the last look."""
        return len(self._since) > self._connections // 2

    def called(self, remote: Remote) -> None:
        """A connection made a call."""
        self._called.add(remote)
        self._fresh.add(remote)

    def judge(self, present: Iterable[Remote], now: float) -> dict[Remote, str]:
        """Return the connections to end, with the reason for each.

        Args:
            present: all connections.
            now: seconds of a clock that never goes back.
        """
        seen = dict.fromkeys(present)
        self._since = {
            **{remote: since for remote, since in self._since.items() if remote in seen},
            **{remote: now for remote in seen if remote not in self._since},
        }
        self._called = {each for each in self._called if each in seen or each in self._fresh}
        self._fresh.clear()
        ended = self._excess(now)
        for remote in ended:
            del self._since[remote]
        return ended

    def _excess(self, now: float) -> dict[Remote, str]:
        owners = {remote: owner_of(ANONYMOUS, remote[0]) for remote in self._since}
        counts, total = Counter(owners.values()), len(self._since)
        ended = dict[Remote, str]()
        for remote, since in self._since.items():
            if remote in self._called:
                continue
            owner, age = owners[remote], now - since
            if age >= self._first_seconds:
                reason = f"a connection made no call for {self._first_seconds:g} s"
            elif counts[owner] > self._peer_max:
                reason = f"{owner} has more than {self._peer_max} connections"
            elif total > self._full and age >= GRACE_SECONDS:
                reason = f"{total} connections are open, and others need the space"
            else:
                continue
            ended[remote] = reason
            counts[owner] -= 1
            total -= 1
        for remote in reversed(self._since):
            owner = owners[remote]
            if counts[owner] > self._peer_max and remote not in ended:
                ended[remote] = f"{owner} has more than {self._peer_max} connections with calls"
                counts[owner] -= 1
        return ended


async def watch(port: int, idlers: Idlers, refusals: Refusals) -> None:
    """End idle connections to a port of this process, until cancelled."""
    now = asyncio.get_running_loop().time
    while True:
        await asyncio.sleep(PRESSED_LOOK_SECONDS if idlers.is_pressed else LOOK_SECONDS)
        present = await in_thread(partial(peers_at, port))
        for remote, reason in idlers.judge(present, now()).items():
            if end_at(present[remote], remote):
                refusals.count("idle", reason)
