"""The connected programs: clients, leaders of logs, and bookies with their versions. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from quire.bookie import UseKind
from quire.console import words
from quire.console.looks import ClusterLook
from quire.console.views.paging import Paging, page_of
from quire.view.followers import FollowersView
from quire.view.users import UserView


@dataclass(frozen=True, slots=True)
class ClientRow:
    """A registered client: host and process, version, and the logs that it leads."""

    where: str
    version: str
    name: str
    leads: Sequence[str]
    leads_total: int


@dataclass(frozen=True, slots=True)
class UserRow:
    """A process that uses a ledger: its work, the log of the ledger, and the last call."""

    user: str
    kind: str
    ledger: int
    log: str
    connections: Sequence[str]
    last: str


@dataclass(frozen=True, slots=True)
class VersionCount:
    """How many programs have a version."""

    version: str
    clients: int
    bookies: int


@dataclass(frozen=True, slots=True)
class ConnectionsPage:
    """The page of connections."""

    paging: Paging
    rows: Sequence[ClientRow]
    versions: Sequence[VersionCount]
    users: Sequence[UserRow]
    users_total: int
    at_ms: int
    followers: FollowersView | None = None
    pushed_per_second: float | None = None


USERS_MAX = 100
"""Users of ledgers on the page."""

LEADS_MAX = 5
"""Logs that are named beside a client."""


def connections(snapshot: ClusterLook, page: int = 1) -> ConnectionsPage:
    """Return the page of connections."""
    led: dict[str, list[str]] = {}
    for name, look in sorted(snapshot.logs.items()):
        if look.view.leader is not None and look.view.leader.name:
            led.setdefault(_process(look.view.leader.name), []).append(name)
    paging, shown = page_of(snapshot.clients, page)
    rows = [
        ClientRow(each.where, each.version, each.name, leads[:LEADS_MAX], len(leads))
        for each in shown
        for leads in [led.get(_process(each.where), [])]
    ]
    clients = Counter(each.version for each in snapshot.clients)
    facts = snapshot.facts
    bookies = Counter(each.version for each in (facts.bookies if facts else ()) if each.version)
    versions = [
        VersionCount(version or words.NONE, clients[version], bookies[version])
        for version in sorted(clients.keys() | bookies.keys())
    ]
    users, total = _users(snapshot)
    rates = [each.pushed_per_second for each in snapshot.paces.values()]
    pushed = [each for each in rates if each is not None]
    return ConnectionsPage(
        *(paging, rows, versions, users, total, snapshot.at_ms),
        *(snapshot.followers, sum(pushed) if pushed else None),
    )


def _users(snapshot: ClusterLook) -> tuple[list[UserRow], int]:
    """Return the first users of ledgers, writers first, and the number of all."""
    found, left_out, _ = snapshot.users
    logs = {
        segment.ledger: name
        for name, look in snapshot.logs.items()
        for segment in look.view.youngest
    }
    rows = [
        UserRow(
            *(each.user, str(each.kind), each.ledger, logs.get(each.ledger, "")),
            *(each.peers, _last(each)),
        )
        for each in found[:USERS_MAX]
    ]
    return rows, len(found) + left_out


def _last(user: UserView) -> str:
    if user.kind is UseKind.FOLLOWS:
        return "waits for entries"
    return f"{words.seconds(user.idle_seconds)} ago"


def _process(text: str) -> str:
    """Return host and process in one form: clients write `host, process 7`, leaders `host:7`."""
    return text.replace(", process ", ":")
