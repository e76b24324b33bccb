"""The processes that use ledgers, put together from the connections that bookies know. Pure.

One process has a connection of its own to each bookie. So uses are put together by the identity of
the certificate, or by the host without one: two processes of one host without certificates
cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from quire.bookie import BookieInfo, LedgerUse, UseKind
from quire.entry import BookieId, LedgerId


@dataclass(frozen=True, slots=True)
class UserView:
    """A process, or several of one host, that uses a ledger.

    Attributes:
        ledger: the ledger.
        kind: it writes, recovers, follows or reads.
        user: the identity of its certificate, else its host.
        peers: the other ends of its connections, sorted.
        bookies: the bookies that know it, sorted.
        idle_seconds: since its last answered call; 0 while it waits for entries.
    """

    ledger: LedgerId
    kind: UseKind
    user: str
    peers: tuple[str, ...]
    bookies: tuple[BookieId, ...]
    idle_seconds: float


class UsersView(NamedTuple):
    """The users of ledgers, uses that were left out, and bookies that did not answer."""

    users: tuple[UserView, ...] = ()
    left_out: int = 0
    silent: tuple[BookieId, ...] = ()

    @property
    def writers(self) -> int:
        """How many ledgers are written."""
        return len({each.ledger for each in self.users if each.kind is UseKind.WRITES})

    @property
    def readers(self) -> int:
        """How many users follow or read ledgers, counted for each ledger."""
        reading = (UseKind.FOLLOWS, UseKind.READS)
        return len({(each.ledger, each.user) for each in self.users if each.kind in reading})

    def of(self, ledger: LedgerId) -> tuple[UserView, ...]:
        """Return the users of one ledger."""
        return tuple(each for each in self.users if each.ledger == ledger)


def users_of(infos: Iterable[BookieInfo]) -> UsersView:
    """Return the users that some bookies know, writers first, then by ledger."""
    found: dict[tuple[LedgerId, UseKind, str], list[tuple[BookieId, LedgerUse]]] = {}
    left_out = 0
    for info in infos:
        left_out += info.in_use.left_out
        for use in info.in_use.uses:
            user, _ = split_peer(use.peer)
            found.setdefault((use.ledger, use.kind, user), []).append((info.bookie, use))
    users = [
        UserView(
            *(ledger, kind, user),
            tuple(sorted({split_peer(use.peer)[1] for _, use in uses})),
            tuple(sorted({bookie for bookie, _ in uses})),
            min(use.idle_seconds for _, use in uses),
        )
        for (ledger, kind, user), uses in found.items()
    ]
    order: Mapping[UseKind, int] = {kind: at for at, kind in enumerate(UseKind)}
    users.sort(key=lambda each: (order[each.kind], -each.ledger, each.user))
    return UsersView(tuple(users), left_out)


def split_peer(peer: str) -> tuple[str, str]:
    """Return the user and the address of a peer, which gRPC writes as `ipv6:%5B::1%5D:4181`."""
    identity, at, address = peer.rpartition(" at ")
    for scheme in ("ipv4:", "ipv6:"):
        address = address.removeprefix(scheme)
    address = address.replace("%5B", "[").replace("%5D", "]")
    return identity if at else address.rpartition(":")[0] or address, address
