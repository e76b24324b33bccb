"""The connected programs: clients, leaders of logs, and bookies with their versions. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from quire.console import words
from quire.console.looks import ClusterLook
from quire.console.views.paging import Paging, page_of


@dataclass(frozen=True, slots=True)
class ClientRow:
    """A registered client: host and process, version, and the logs that it leads."""

    where: str
    version: str
    name: str
    leads: Sequence[str]
    leads_total: int


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
    at_ms: int


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
    return ConnectionsPage(paging, rows, versions, snapshot.at_ms)


def _process(text: str) -> str:
    """Return host and process in one form: clients write `host, process 7`, leaders `host:7`."""
    return text.replace(", process ", ":")
