"""Gathering what a cluster looks like, through a client. It only reads.

    view = await gather(client, now_ms)

The cost is a few reads of the store for each bookie and log, and a question to the bookies for the
end of each log that is written. It does not depend on the number of ledgers or segments. A part
that does not answer within `ANSWER_SECONDS` has its reason in `trouble`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from quire.aio.tasks import each
from quire.aio.timing import time_limit
from quire.bookie import BookieInfo
from quire.client import Client
from quire.entry import BookieId
from quire.errors import CorruptRecordError, NoSuchLogError, NoSuchNodeError, QuireError
from quire.healing.facts import Ask, gather_facts
from quire.healing.state import LOST_SECONDS
from quire.healing.summary import Summary, read_summary
from quire.healing.switch import Switch, read_switch
from quire.healing.verdict import ENSEMBLE, ClusterFacts
from quire.log.manifest.info import info_of_segment, leader_of
from quire.log.manifest.manifest import LogManifest
from quire.metastore.cluster import read_cluster
from quire.metastore.members import read_members
from quire.metastore.store import MetadataStore
from quire.metastore.zookeeper_probe import ServerStatus, probe
from quire.metastore.zookeeper_uri import parse_uri
from quire.view.users import UsersView, users_of
from quire.view.values import ClientView, ClusterView, CursorView, LeaderView, LogView

ANSWER_SECONDS: Final = 5.0
"""How long a log may take to tell its end and the lags of its cursors."""

AT_ONCE_MAX: Final = 32
"""Logs that are asked at the same time."""

LOGS_MAX: Final = 100
"""Logs in one view, unless the caller names them."""

T = TypeVar("T")
R = TypeVar("R")


async def gather(
    client: Client,
    now_ms: int,
    *,
    logs: Sequence[str] | None = None,
    logs_max: int = LOGS_MAX,
    lost_seconds: float = LOST_SECONDS,
    ensemble: int = ENSEMBLE,
) -> ClusterView:
    """Return a cluster at one moment.

    Args:
        client: a client of the cluster.
        now_ms: the time now, in Unix milliseconds.
        logs: the logs to look at; None for the first `logs_max` by name.
        logs_max: how many logs at most, if `logs` does not name them.
        lost_seconds: the silence after which a bookie counts as lost.
        ensemble: how many writable bookies a new ledger needs.

    Returns:
        The view. A log that is deleted meanwhile is missing.

    Raises:
        StoreUnavailableError: the metadata store does not answer.

    Cancellation: ends the call only: nothing is changed.
    """
    names = await client.list_logs()
    wanted = names[:logs_max] if logs is None else logs
    facts, views, clients = await asyncio.gather(
        gather_cluster(client, now_ms, lost_seconds=lost_seconds, ensemble=ensemble),
        gather_logs(client, wanted),
        gather_clients(client),
    )
    return ClusterView(client.store_uri, facts, views, names, clients)


async def gather_cluster(
    client: Client,
    now_ms: int,
    *,
    lost_seconds: float = LOST_SECONDS,
    ensemble: int = ENSEMBLE,
    ask: Ask | None = None,
) -> ClusterFacts:
    """Return the facts of a cluster; every registered bookie is asked. Raises as `gather`.

    `ask` asks a bookie in place of `Client.bookie_info`, as with a limit of time.
    """
    store = client._store
    bookies, adopted, servers, (summary, switch, damaged) = await asyncio.gather(
        gather_facts(store, ask or client.bookie_info),
        _is_adopted(store),
        zookeepers(client.store_uri),
        _healing(store),
    )
    answering = [(name, status is not None) for name, status in servers]
    return ClusterFacts(
        *(bookies, now_ms, lost_seconds, adopted, answering, ensemble),
        *(summary, switch, damaged),
    )


async def gather_logs(client: Client, names: Iterable[str]) -> list[LogView]:
    """Return logs, sorted by name; one that does not exist is left out. Raises as `gather`."""
    found = await each(sorted(names), partial(_log_if_any, client), AT_ONCE_MAX)
    return [each for each in found if each is not None]


async def gather_log(client: Client, name: str) -> LogView:
    """Return one log. Raises `NoSuchLogError`, and as `gather`."""
    try:
        manifest = await client._logs.find(name)
    except CorruptRecordError as error:
        return LogView(name, trouble=str(error))
    view = _view_log(manifest)
    try:
        async with time_limit(ANSWER_SECONDS):
            return await _with_end(client, view)
    except TimeoutError:
        return replace(view, trouble=f"no answer within {ANSWER_SECONDS:g} s")
    except QuireError as error:
        return replace(view, trouble=str(error))


async def gather_clients(client: Client) -> list[ClientView]:
    """Return the registered clients, sorted by host and process. Raises as `gather`."""
    members = [each for each in await read_members(client._store) if each.kind == "client"]
    views = [
        ClientView(each.name, each.where, each.program.version if each.program else "")
        for each in members
    ]
    return sorted(views, key=lambda each: (each.where, each.name))


async def gather_users(client: Client, bookies: Collection[BookieId]) -> UsersView:
    """Ask some bookies which connections use their ledgers. Unregistered bookies are left out;
    `silent` names bookies that do not answer.
    """
    known = [each.bookie for each in client.bookies() if each.bookie in bookies]

    async def ask(bookie: BookieId) -> BookieInfo | None:
        try:
            async with time_limit(ANSWER_SECONDS):
                return await client.bookie_info(bookie)
        except (TimeoutError, QuireError):
            return None

    answers = await each(known, ask, AT_ONCE_MAX)
    silent = [name for name, answer in zip(known, answers, strict=True) if answer is None]
    found = users_of(answer for answer in answers if answer is not None)
    return found._replace(silent=tuple(silent))


async def zookeepers(store: str) -> list[tuple[str, ServerStatus | None]]:
    """Ask every ZooKeeper server in a store's URI for its state."""
    if not store.startswith("zk://"):
        return []
    hosts = parse_uri(store).addresses
    found = await asyncio.gather(*(asyncio.to_thread(probe, *host) for host in hosts))
    return [(f"{name}:{port}", each) for (name, port), each in zip(hosts, found, strict=True)]


def _view_log(manifest: LogManifest) -> LogView:
    """Return what the head of a manifest tells."""
    return LogView(
        manifest.name,
        manifest.log_id,
        manifest.created_ms,
        manifest.epoch,
        manifest.sealed,
        manifest.retired,
        manifest.segment_count,
        tuple(map(info_of_segment, manifest.rows)),
        manifest.live_bytes,
        manifest.first_offset,
        manifest.end_offset,
        _leader(manifest),
        options=dict(manifest.settings),
    )


def _leader(manifest: LogManifest) -> LeaderView | None:
    if not manifest.epoch:
        return None
    found = leader_of(manifest)
    if found is None:
        return LeaderView(manifest.epoch)
    return LeaderView(manifest.epoch, host=found.host, pid=found.pid, since_ms=found.since_ms)


async def _with_end(client: Client, view: LogView) -> LogView:
    """Return a log with what its bookies, its cursors and its election tell."""
    if view.leader is not None:
        leader = await client.election(view.name).leader()
        candidate = None if leader is None else leader.candidate
        view = replace(view, leader=replace(view.leader, candidate=candidate))
    if view.is_being_deleted:
        return view
    end = await client.log_end(view.name)
    view = replace(view, end_offset=end.offset)
    cursors = client.log_cursors(view.name)
    lags = await cursors._lags(end.offset)
    shown = [CursorView(info.name, str(info.position), info.updated_ms, lag) for info, lag in lags]
    return replace(view, cursors=tuple(shown))


async def _log_if_any(client: Client, name: str) -> LogView | None:
    with suppress(NoSuchLogError):  # deleted meanwhile
        return await gather_log(client, name)
    return None


async def _healing(store: MetadataStore) -> tuple[Summary | None, Switch, list[str]]:
    """Return the auditor's findings and its switch, and the reason if the latter is damaged."""
    summary: Summary | None = None
    with suppress(CorruptRecordError):  # the auditor writes it anew
        summary = await read_summary(store)
    try:
        return summary, await read_switch(store), []
    except CorruptRecordError as error:
        return summary, Switch(), [str(error)]


async def _is_adopted(store: MetadataStore) -> bool:
    try:
        return (await read_cluster(store)).adopted
    except NoSuchNodeError:  # a store of ledgers alone
        return True
