"""The segments of a log, found in the metadata store: where a reading begins.

The namespace's record is compared with the client first. Ids of ledgers are numbers: in another
cluster they may name ledgers that exist, and hold something else.
"""

from __future__ import annotations

import asyncio
from typing import Final

from quire.aio.backoff import Backoff
from quire.aio.retry import retry
from quire.bookkeeper.dlog.names import DlogName, servers_of
from quire.bookkeeper.dlog.namespace import Namespace, decode_namespace
from quire.bookkeeper.dlog.segments import DlogSegment, arrange, decode_segment
from quire.errors import (
    ConfigurationError,
    ConflictError,
    NoSuchDlogError,
    NoSuchNodeError,
    UnreadableContentError,
)
from quire.metastore.store import MetadataStore
from quire.metastore.zookeeper_uri import parse_uri

ATTEMPTS_MAX: Final = 16
"""Attempts at one list of a log's segments while segments are completed or removed."""

PAUSES: Final = Backoff(first=0.005, last=0.05)
"""Pauses between them: a writer changes a record in one transaction."""

AT_ONCE: Final = 100
"""Records of segments that are asked for at once."""

_ZOOKEEPER: Final = "zk://"


async def list_segments(store: MetadataStore, ledgers: str, name: DlogName) -> list[DlogSegment]:
    """Return the segments of a log that a reader reads, as they were at one moment.

    Args:
        store: the metadata store.
        ledgers: the path of the client's ledgers in it.
        name: the log.

    Raises:
        NoSuchDlogError: the store has no record of the log.
        ConfigurationError: the namespace or the name has other ledgers or servers.
        UnreadableContentError: the namespace is federated, or has its ledgers in another
            ZooKeeper; or a record has an unknown version.
        CorruptRecordError: a record is damaged, or a segment is missing.
        ConflictError: the log kept changing.
    """
    check_servers(name, store.uri)
    hosts, root = _place(store.uri)
    namespace = await _namespace(store, name)
    if namespace is None:
        raise NoSuchDlogError(name.path, name.segments_path, store.uri)
    _check(namespace, root + ledgers, hosts)
    try:
        await store.get(name.segments_path)
    except NoSuchNodeError:
        if namespace.is_federated:
            raise UnreadableContentError(
                f"log {name}",
                f"is not at {name.segments_path}, and its namespace {namespace.path} is federated",
                f"give its path below {namespace.path}/.subnamespaces",
            ) from None
        raise NoSuchDlogError(name.path, name.segments_path, store.uri) from None
    wanted = (NoSuchNodeError, ConflictError)
    return await retry(lambda: _look(store, name), on=wanted, backoff=PAUSES, attempts=ATTEMPTS_MAX)


def check_servers(name: DlogName, uri: str) -> None:
    """Raise `ConfigurationError` if a log's name has other servers than a store's URI."""
    hosts, _ = _place(uri)
    if name.servers and hosts and name.servers != hosts:
        raise ConfigurationError(
            f"log {name} is at {', '.join(sorted(name.servers))}, and the store {uri} is not:"
            " name the same servers, or give the path of the log alone"
        )


def _place(uri: str) -> tuple[frozenset[str], str]:
    """Return the servers and the root of a store's URI; a store of tests has none."""
    if not uri.startswith(_ZOOKEEPER):
        return frozenset(), ""
    parsed = parse_uri(uri)
    return servers_of(parsed.hosts), parsed.root


async def _namespace(store: MetadataStore, name: DlogName) -> Namespace | None:
    """Return the namespace of a log: the nearest record above it that is not empty."""
    for path in name.namespaces:
        try:
            found = await store.get(path)
        except NoSuchNodeError:
            continue
        if found.value:
            return decode_namespace(path, found.value)
    return None


def _check(namespace: Namespace, ledgers: str, hosts: frozenset[str]) -> None:
    servers = namespace.log_servers or hosts
    if servers and namespace.ledger_servers != servers:
        raise UnreadableContentError(
            f"namespace {namespace.path}",
            f"has its logs at {', '.join(sorted(servers))}, and its ledgers at "
            f"{', '.join(sorted(namespace.ledger_servers))}",
            "quire reads logs that have both in one ZooKeeper",
        )
    if namespace.ledgers != ledgers:
        raise ConfigurationError(
            f"namespace {namespace.path} has its ledgers at {namespace.ledgers}, and the store's "
            f"URI names {ledgers}: end it with ?ledgers=bookkeeper:{namespace.ledgers}, below "
            "the root of the URI"
        )


async def _look(store: MetadataStore, name: DlogName) -> list[DlogSegment]:
    """Return the segments, if none changed meanwhile: truncation changes several together."""
    path = name.segments_path
    paths = [f"{path}/{each}" for each in await store.children(path)]
    found = []
    for begin in range(0, len(paths), AT_ONCE):
        found += await asyncio.gather(*map(store.get, paths[begin : begin + AT_ONCE]))
    seen = dict(zip(paths, (each.version for each in found), strict=True))
    if changed := await store.changed(seen):
        raise ConflictError(f"{changed[0]} changed while the segments of {name} were listed")
    values = (each.value for each in found)
    return arrange(path, map(decode_segment, paths, values))
